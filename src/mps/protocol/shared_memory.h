#pragma once
// Gives a container the /dev/shm of the MPS servers, but only if the driver of the grant's pool needs it. If the pod
// has a volume of its own there, its containers see that one, because kubelet lists it after this one. Pure.
#include "grants/allocate/grant.h"
#include "mps/protocol/pools.h"

namespace tranche::agent {

void put_shared_memory(const allocate::Paths& paths, const PoolReports& reports, allocate::Grant& grant);

}  // namespace tranche::agent
