#pragma once
// Where the driver of the grant's pool needs it, and only there, the container gets the /dev/shm of the MPS servers. A
// volume that the pod itself has there stays what its containers see: kubelet lists it after this one. Pure.
#include "grants/allocate/grant.h"
#include "mps/protocol/pools.h"

namespace tranche::agent {

void put_shared_memory(const allocate::Paths& paths, const PoolReports& reports, allocate::Grant& grant);

}  // namespace tranche::agent
