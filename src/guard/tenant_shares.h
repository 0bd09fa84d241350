#pragma once
// Which grants belong to one tenant, and the tenant's limits. A container that requests several resources of one pool
// ("gpu0", "gpu1") gets a grant of each, connects through the endpoint that kubelet lists first, and uses the devices
// of all grants. Its limits are therefore those of all its grants together, through any of the endpoints. Pure.
#include <map>
#include <string>
#include <vector>

#include "config/model.h"
#include "grants/grant_shares.h"
#include "guard/judge.h"

namespace tranche::guard {

struct Tenant {
  std::string pool;
  std::vector<std::string> grants;               // sorted
  std::map<std::string, grants::Share> devices;  // by UUID: of all grants together; limits of 0 = not limited
  bool complete = false;                         // kubelet has reported that these are all
};
using Tenants = std::map<std::string, Tenant>;  // by the first of its grants

Tenants tenants_of(const grants::Shares& shares);
// The tenant of a grant: the grant itself where nothing is known.
std::string tenant_of(const Tenants& tenants, const std::string& grant);

// The limit of a tenant on a device of its pool that none of its grants holds: too little for a context. It applies
// once kubelet has reported that there are no more grants.
inline constexpr Bytes kNotTheirs = mib(1);
// The limits of tenants on each device, by the first of their grants, with the policy of the resource.
std::map<GrantOnDevice, Limit> limits_of(const Tenants& tenants,
                                         const std::map<std::string, std::vector<std::string>>& devices_of_pool,
                                         const std::map<std::string, config::GuardMemory>& policies,
                                         config::GuardMemory otherwise);

}  // namespace tranche::guard
