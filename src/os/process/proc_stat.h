#pragma once
// Private to os/process: reading /proc/<pid>/stat. Pure.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tranche::host {

// Field 22 (proc(5)): when the process started, in clock ticks since boot. The name in field 2 is the process's own
// choice and may hold blanks and parentheses; fields are counted from the last ')'.
std::optional<std::uint64_t> parse_start_ticks(std::string_view stat);

// Fields 2 to 4: the name, as far as it is printable ASCII ("?" for the rest), the state and the parent's pid.
struct ProcStatHead {
  std::string name;
  std::uint32_t parent = 0;
  char state = '?';  // 'R', 'S', 'T' …
};
std::optional<ProcStatHead> parse_stat_head(std::string_view stat);

}  // namespace tranche::host
