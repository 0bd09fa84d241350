#include "guard/attribution.h"

#include <algorithm>

#include "base/text.h"

namespace tranche::guard {
namespace {

constexpr std::size_t kGrantDigits = 16;
constexpr std::size_t kLongestPool = 64;

bool is_grant(std::string_view name) {
  return name.size() == kGrantDigits &&
         std::ranges::all_of(name, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool is_pool(std::string_view name) {
  return !name.empty() && name.size() <= kLongestPool &&
         std::ranges::all_of(name, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '-'; });
}

// "…/pools/<pool>/doors/<grant>", the root of the mount inside its file system.
std::optional<Door> door_of_path(std::string_view path) {
  const auto parts = split(path, '/');
  if (parts.size() < 4) return std::nullopt;
  const auto* last = &parts.back();
  if (last[-3] != "pools" || last[-1] != "doors" || !is_pool(last[-2]) || !is_grant(last[0])) return std::nullopt;
  return Door{std::string(last[-2]), std::string(last[0])};
}

}  // namespace

std::optional<Door> door_of_mountinfo(std::string_view mountinfo, std::string_view at) {
  // 36 35 98:0 <root> <mount point> <options> … - <type> <source> <super options>   (proc(5))
  std::optional<Door> found;
  for (const auto line : lines_of(mountinfo)) {
    const auto fields = split(line, ' ');
    if (fields.size() < 6 || fields[4] != at) continue;
    found = door_of_path(fields[3]);
  }
  return found;
}

}  // namespace tranche::guard
