#include "base/lasted.h"

#include <fmt/format.h>

namespace tranche {

// Two units are precise enough for people.
std::string lasted(std::uint64_t ms) {
  const std::uint64_t seconds = ms / 1000;
  const std::uint64_t minutes = seconds / 60;
  const std::uint64_t hours = minutes / 60;
  if (hours >= 24) return fmt::format("{}d {}h", hours / 24, hours % 24);
  if (hours > 0) return fmt::format("{}h {}m", hours, minutes % 60);
  return minutes > 0 ? fmt::format("{}m", minutes) : fmt::format("{}s", seconds);
}

}  // namespace tranche
