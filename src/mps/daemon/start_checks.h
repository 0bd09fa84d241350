#pragma once
// Checks before a daemon starts, because the daemon itself reports none of this: the owner and mode of the pipe
// directory, whether clients can reach it, the limit of open files, and the SELinux label that containers need. A
// condition that would let another user take over the pool is an error; one that may cause failures later is a note. No
// threads.
#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"

namespace tranche::host {

inline constexpr unsigned long kFewOpenFiles = 16384;  // fewer cause shared memory failures (NVIDIA's manual)

// Corrects the mode of a directory that we own, and labels. The notes are for the operator. `servers_of_users`: MPS
// servers run as their clients' users and need access through all parent directories.
Result<std::vector<std::string>> check_before_start(const std::string& pipe, const std::string& endpoints,
                                                    bool servers_of_users);

// Pure parts.
// kDenied: another user owns it and could replace the daemon's socket.
Status judge_owner(const std::string& path, uid_t owner, uid_t ours);
std::string judge_open_files(unsigned long limit);  // "" = enough
// "system_u:object_r:container_file_t:s0" from "system_u:object_r:var_run_t:s0"; "" = not a label.
std::string for_containers(const std::string& label);

}  // namespace tranche::host
