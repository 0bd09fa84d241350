#pragma once
// Reads of /proc that a thread which has exited must not answer. /proc/<pid> shows what the first thread of a process
// has; once that thread exits (pthread_exit in main), it has no mounts, no memory and, under cgroup v1, the root
// control group, although the other threads run on. A tenant can choose that. Any thread.
#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tranche::os {

std::vector<pid_t> all_processes();  // of the node, or of our pid namespace; sorted

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

// "NSpid" of a process's status, or of a pidfd's fdinfo: its pids, from the reader's pid namespace inwards. Empty: the
// line is absent, or the process has exited. Pure; fuzzed.
std::vector<pid_t> parse_namespaced_pids(std::string_view text);

// --- the weight of a control group -----------------------------------------------------------------------------------

// Whether the kernel gives a program too little CPU time beside busy ones: Kubernetes makes the CPU weight of a
// container's control group from its CPU request. The first two functions are pure, and fuzzed.

// From the text of /proc/<pid>/cgroup: the first of these files that exists has the weight. A container without a
// cgroup namespace sees its own group at the root. Empty: the process is in no group, or in one outside the root.
std::vector<std::string> cpu_weight_files(std::string_view cgroup);
// Of the text of such a file. "" = it is as much as a CPU request of 100m gives, or is not a number.
std::string cpu_weight_problem(std::string_view file, std::string_view text);
// Of this process; `root` is a prefix of every path. "" also where no group has a weight.
std::string own_cpu_weight_problem(const std::string& root = "");

}  // namespace tranche::os
