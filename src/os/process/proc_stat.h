#pragma once
// Reading /proc/<pid>/stat and /proc/<pid>/status. Pure; fuzzed.
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tranche::os {

// Field 22 (proc(5)): when the process started, in clock ticks since boot. The process chooses the name in field 2,
// which may hold blanks and parentheses, so fields are counted from the last ')'.
std::optional<std::uint64_t> parse_start_ticks(std::string_view stat);

// Fields 2 to 4 and 9: the name, with "?" for each character that is not printable ASCII, the state, the parent's pid
// and a flag.
struct ProcStatHead {
  std::string name;
  std::uint32_t parent = 0;
  char state = '?';      // 'R', 'S', 'T' …
  bool exiting = false;  // PF_EXITING: the thread has begun to exit, or is a zombie
};
std::optional<ProcStatHead> parse_stat_head(std::string_view stat);

// "NSpid" of a process's status, or of a pidfd's fdinfo: its pids, from the reader's pid namespace inwards. Empty: the
// line is absent, or the process has exited.
std::vector<pid_t> parse_namespaced_pids(std::string_view text);

}  // namespace tranche::os
