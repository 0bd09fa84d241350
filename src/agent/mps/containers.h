#pragma once
// Containers as /proc shows them: a container is its mount namespace. Reads /proc of processes that may end meanwhile
// and that tenants own; nothing of theirs is believed but what the kernel says. No threads.
#include <optional>
#include <string>

#include "host/process/process.h"

namespace tranche::agent {

// "mnt:[4026531840]"; "" when the process has ended or may not be looked at.
std::string container_of(int pid);
// The process of a container that started first: its init, with whose end the whole container ends.
std::optional<host::ProcessRef> oldest_of(const std::string& container);
// The grant whose door, below this MPS root and in this pool, is in the process's mount table: for clients from before
// our start.
std::optional<std::string> grant_by_mounts(int pid, const std::string& mps_root, const std::string& pool);

}  // namespace tranche::agent
