#pragma once
// Reads of /proc that a thread which has exited must not answer. /proc/<pid> shows what the first thread of a process
// has; once that thread exits (pthread_exit in main), it has no mounts, no memory and, under cgroup v1, the root
// control group, although the other threads run on. A tenant can choose that. Any thread.
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tranche::os {

// Calls `look` with "/proc/<pid>", and, as long as the thread that was read is exiting, with folders of its other
// threads ("/proc/7/task/9"), until one is alive after the call or `look` returns true ("this suffices"). The result of
// the last call counts. False: the process has exited, or its threads end before they can be read (a bounded number is
// tried, because a tenant chooses how many there are).
using LookAtThread = std::function<bool(const std::string& folder, pid_t thread)>;
bool look_at_living_thread(pid_t pid, const LookAtThread& look, const std::string& proc = "/proc");

// Its pids, from the reader's pid namespace inwards: "NSpid" of proc(5), from a pidfd, which costs the same for each
// process. Empty: it has exited.
std::vector<pid_t> namespaced_pids(pid_t pid);
// PID 1 of a pid namespace below the reader's: when it exits, the kernel kills all others of the namespace.
bool is_first_of_namespace(pid_t pid);

// From capget(2), which costs the same for each process. False: also if it has exited.
bool has_effective_capability(pid_t thread, unsigned capability);

// The text of /proc/<pid>/stat (proc(5)): fields 2 to 4, 9 and 22. The process chooses the name in field 2, which may
// hold blanks and parentheses, so fields are counted from the last ')'. Pure; fuzzed, as is the next.
struct ProcStat {
  std::string name;  // with "?" for each character that is not printable ASCII
  std::uint32_t parent = 0;
  char state = '?';                            // 'R', 'S', 'T' …
  bool exiting = false;                        // PF_EXITING: the thread has begun to exit, or is a zombie
  std::optional<std::uint64_t> start_ticks{};  // when the process started, in clock ticks since boot
};
std::optional<ProcStat> parse_stat(std::string_view text);

// "NSpid" of a process's status, or of a pidfd's fdinfo: its pids, from the reader's pid namespace inwards. Empty: the
// line is absent, or the process has exited.
std::vector<pid_t> parse_namespaced_pids(std::string_view text);

}  // namespace tranche::os
