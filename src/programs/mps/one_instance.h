#pragma once
// Only one `tranche mps` may serve an MPS root: two would compete for the daemons. A lock on <mps-root>/mps.lock, which
// the kernel releases with the process, so a stale lock cannot remain. No threads.
#include <string>

#include "base/result.h"
#include "os/files/file_lock.h"

namespace tranche::agent {

// kConflict names the process that holds the lock. The directory must exist. Call once per process: closing any other
// descriptor of the file releases the lock.
Result<host::FileLock> lock_mps_root(const std::string& mps_root);

}  // namespace tranche::agent
