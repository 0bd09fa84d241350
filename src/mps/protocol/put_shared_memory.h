#pragma once
// Gives a container the /dev/shm of the MPS servers, but only if the driver of the grant's pool needs it. If the pod
// has a volume of its own there, its containers see that one, because kubelet lists it after this one. Pure.
#include "grants/allocate/grant.h"
#include "mps/protocol/pool_reports.h"

namespace tranche::mps {

// Below the MPS root: what containers get as their /dev/shm if they need the server's.
inline constexpr const char* kSharedMemoryFolder = "shm";

}  // namespace tranche::mps

namespace tranche::agent {

void put_shared_memory(const allocate::Paths& paths, const PoolReports& reports, allocate::Grant& grant);

}  // namespace tranche::agent
