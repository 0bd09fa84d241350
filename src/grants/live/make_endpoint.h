#pragma once
// A grant's endpoint, `<mps-root>/pools/<pool>/doors/<grant>`, before the grant leaves: `tranche mps`, whose sockets
// are in it, opens it for a new tenant, with what the grant is worth. kubelet asks for slots only when no container
// holds them, so whatever is left of a former tenant (its directory, its clients) is not this one's. May be asked
// again. Any thread; blocks for at most a second.
#include <string>

#include "base/result.h"
#include "grants/allocate/grant.h"
#include "mps/protocol/pools.h"

namespace tranche::agent {

Status make_endpoint(const allocate::Paths& paths, const allocate::Grant& grant);
EndpointLimits endpoint_limits(const allocate::Grant& grant);

}  // namespace tranche::agent
