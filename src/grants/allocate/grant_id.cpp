#include <algorithm>

#include "base/text.h"
#include "grants/allocate/grant.h"

namespace tranche::allocate {

std::string grant_id(std::span<const std::string> slots) {
  if (slots.size() == 1) return hex16(stable_hash(slots.front()));  // as most have, and no copy of it
  std::vector<std::string> sorted(slots.begin(), slots.end());
  std::ranges::sort(sorted);
  return hex16(stable_hash(join(sorted, ",")));
}

}  // namespace tranche::allocate
