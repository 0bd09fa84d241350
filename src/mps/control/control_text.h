#pragma once
// Commands to an MPS control daemon (interface version 2), as the lines that nvidia-cuda-mps-control reads on stdin.
// Limits name a device by UUID and carry the unit M: an ordinal counts the devices that the daemon sees, and a number
// without a unit is neither bytes nor MiB. Pure. Replies: mps/control/daemon_replies.h.
#include <optional>
#include <string>
#include <vector>

#include "mps/limits/limits.h"

namespace tranche::mps::command {

// Sessions: several commands in one run of the program. Nothing separates their replies, so each session orders its
// commands such that the function of the same name in replies.h can distinguish the replies.
std::vector<std::string> health_session();
std::vector<std::string> server_session(int server, const DaemonLimits& limits);  // limits: the devices to query
std::vector<std::string> apply_session(const DaemonLimits& limits, std::optional<int> server = {});
std::vector<std::string> read_session(const DaemonLimits& limits);
// Sets the limits for the next clients on a daemon and its servers, reads them back, and lists the servers that run by
// now. A server that started meanwhile got the defaults, which are the same limits unless it started before they were
// set.
std::vector<std::string> turn_session(const std::vector<int>& servers, const DaemonLimits& limits);

std::string as_input(const std::vector<std::string>& commands);  // one per line

}  // namespace tranche::mps::command
