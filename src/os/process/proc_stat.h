#pragma once
// Private to os/process: reading /proc/<pid>/stat. Pure.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tranche::host {

// Field 22 (proc(5)): when the process started, in clock ticks since boot. The process chooses the name in field 2,
// which may hold blanks and parentheses, so fields are counted from the last ')'.
std::optional<std::uint64_t> parse_start_ticks(std::string_view stat);

// Fields 2 to 4: the name, with "?" for each character that is not printable ASCII, the state and the parent's pid.
struct ProcStatHead {
  std::string name;
  std::uint32_t parent = 0;
  char state = '?';  // 'R', 'S', 'T' …
};
std::optional<ProcStatHead> parse_stat_head(std::string_view stat);

}  // namespace tranche::host
