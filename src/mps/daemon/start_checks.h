#pragma once
// What is looked at before a daemon is started, because the daemon itself says nothing about it: whose the pipe
// directory is and who may write there, whether others can reach it, how many files a daemon may open, and the SELinux
// label that containers need. What would give the pool away is an error, what may hurt later a note. No threads.
#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"

namespace tranche::host {

inline constexpr unsigned long kFewOpenFiles = 16384;  // fewer show as failing shared memory, by NVIDIA's manual

// Corrects what it may: the mode of a directory of ours, and labels. The notes are for people. `servers_of_users`: MPS
// servers run as their clients' users and have to pass all parents.
Result<std::vector<std::string>> check_before_start(const std::string& pipe, const std::string& endpoints,
                                                    bool servers_of_users);

// Pure parts.
// kDenied: somebody else owns it and could put a socket of theirs in the daemon's place.
Status judge_owner(const std::string& path, uid_t owner, uid_t ours);
std::string judge_open_files(unsigned long limit);  // "" = enough
// "system_u:object_r:container_file_t:s0" from "system_u:object_r:var_run_t:s0"; "" = not a label.
std::string for_containers(const std::string& label);

}  // namespace tranche::host
