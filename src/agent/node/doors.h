#pragma once
// A grant's door, `<mps-root>/pools/<pool>/doors/<grant>`, before the grant leaves: `tranche mps`, whose sockets stand
// in it, is asked to open it and told what the grant is worth, unless its last report says that it is open with just
// that and the socket is there. In the static tier it is asked each time, for its reply names the SM partition that the
// container has to use. Idempotent: that is how a replayed answer is served. Any thread; blocks for at most a second.
#include <string>

#include "agent/pools/pools.h"
#include "allocate/grant.h"
#include "base/result.h"

namespace tranche::agent {

Status make_door(const allocate::Paths& paths, const PoolReports& reports, allocate::Grant& grant);
DoorLimits door_limits(const allocate::Grant& grant);

// Where the driver of the grant's pool needs it, and only there, the container gets the /dev/shm of the MPS servers. A
// volume that the pod itself has there stays what its containers see: kubelet lists it after this one. Pure.
void put_shared_memory(const allocate::Paths& paths, const PoolReports& reports, allocate::Grant& grant);

}  // namespace tranche::agent
