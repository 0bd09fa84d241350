#pragma once
// Finds the process that reads the configuration by its exact name, in this pod only: a container that sees all
// processes of the node would otherwise find those of other pods as well. Reads /proc; any thread.
#include <sys/types.h>

#include <string>
#include <string_view>

#include "base/result.h"

namespace tranche::agent {

// Whether a process has that name: the last part of its argv[0], or of its executable. `wanted` may also be a path:
// NVIDIA's chart specifies /usr/bin/mps-control-daemon, whose argv[0] is mps-control-daemon. Pure.
bool is_called(std::string_view wanted, std::string_view argv0, std::string_view program);

// Sends `signal` to the first process of that name (also by the kernel's record of it), except this one, that sees the
// same directory at `folder` (the volume shared by the containers of one pod). Uses a pidfd, so a process with a
// recycled id is never signalled. Returns the pid. kNotFound: there is none; it reads the configuration when it starts.
Result<pid_t> signal_reader(const std::string& wanted, const std::string& folder, int signal);

}  // namespace tranche::agent
