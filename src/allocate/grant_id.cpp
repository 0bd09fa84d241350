#include <algorithm>

#include "allocate/grant.h"
#include "base/text.h"

namespace tranche::allocate {

std::string grant_id(std::span<const std::string> slots) {
  std::vector<std::string> sorted(slots.begin(), slots.end());
  std::ranges::sort(sorted);
  return hex16(stable_hash(join(sorted, ",")));
}

}  // namespace tranche::allocate
