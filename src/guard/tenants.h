#pragma once
// Which grants are one tenant's, and what it is worth. A container that asks for several resources of one pool ("gpu0",
// "gpu1") is given a grant of each, comes in by the endpoint of whichever kubelet puts first, and uses the devices of
// all: it is worth what they are worth together, by whichever endpoint. Pure.
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "config/guard.h"
#include "grants/shares.h"
#include "guard/judge.h"

namespace tranche::guard {

struct Tenant {
  struct OnDevice {
    std::string resource;
    Bytes memory;                    // 0 = not limited
    std::optional<Percent> threads;  // as in grants::Share
  };
  std::string pool;
  std::vector<std::string> grants;          // sorted
  std::map<std::string, OnDevice> devices;  // by UUID
  bool told = false;                        // kubelet has said that these are all
};
using Tenants = std::map<std::string, Tenant>;  // by the first of its grants

Tenants tenants_of(const grants::Shares& shares);
// The tenant of a grant: the grant itself where nothing is known.
std::string tenant_of(const Tenants& tenants, const std::string& grant);

// What is left to a tenant of a device of its pool that none of its grants holds: too little for a context. It counts
// once kubelet has said that there are no more grants.
inline constexpr Bytes kNotTheirs = mib(1);
// What tenants are held to on each device, by the first of their grants, with the policy of the resource.
std::map<GrantOnDevice, Limit> limits_of(const Tenants& tenants,
                                         const std::map<std::string, std::vector<std::string>>& devices_of_pool,
                                         const std::map<std::string, config::GuardMemory>& policies,
                                         config::GuardMemory otherwise);

}  // namespace tranche::guard
