#pragma once
// The process that reads the configuration, by the name that it was given: not by a piece of it, and not a process of
// another pod, which a container that sees all processes of the node would find as well. Reads /proc; any thread.
#include <sys/types.h>

#include <string>
#include <string_view>

#include "base/result.h"

namespace tranche::agent {

// Whether a process is called that: by the last part of its argv[0], or of the program that it runs. `wanted` may be a
// path too: NVIDIA's chart asks for /usr/bin/mps-control-daemon, which calls itself mps-control-daemon. Pure.
bool is_called(std::string_view wanted, std::string_view argv0, std::string_view program);

// Sends `signal` to the first process of that name, this one excepted, that sees the same folder at `folder` (the
// volume which the containers of one pod share), by pidfd, so that it reaches nobody who got its id. kNotFound: there
// is none; it will read the configuration when it starts. The result is whom it was sent to.
Result<pid_t> signal_reader(const std::string& wanted, const std::string& folder, int signal);

}  // namespace tranche::agent
