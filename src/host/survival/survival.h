#pragma once
// The proof of stopping/survival.h about a running container, from /proc, by its CUDA clients. Blocks for a few reads.
// Any thread. Needs the host's process ids; without them nothing is proven.
#include <sys/types.h>

#include <span>
#include <string>

#include "base/result.h"
#include "stopping/survival.h"

namespace tranche::host {

// The container's first process: the client's ancestor that is PID 1 of a pid namespace right below ours and in the
// same cgroup (a pod's shared namespace has the pause process there). kNotFound when there is none.
Result<pid_t> container_init(pid_t client, const std::string& proc = "/proc");

Result<stopping::InitTexts> read_init(pid_t init, const std::string& proc = "/proc");

// `stop_signal` 0 = not known: then none of the signals that images name as theirs may end it. SIGINT is not among
// them, since every shell and every Python program catches it and hardly an image names it.
stopping::Survival container_survives(std::span<const pid_t> clients, int stop_signal,
                                      const std::string& proc = "/proc");

}  // namespace tranche::host
