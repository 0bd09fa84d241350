#pragma once
// Only one `tranche mps` may serve an MPS root: two would fight over the daemons. A lock on <mps-root>/mps.lock, which
// the kernel gives up with the process, so nothing stale can be left. No threads.
#include <string>

#include "base/result.h"
#include "os/loop/fd.h"

namespace tranche::agent {

// kConflict names the process that has it. The directory must exist. Once in a process: closing any other descriptor of
// the file gives the lock up.
Result<host::Fd> lock_mps_root(const std::string& mps_root);

}  // namespace tranche::agent
