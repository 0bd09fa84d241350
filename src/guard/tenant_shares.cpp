#include "guard/tenant_shares.h"

#include <algorithm>
#include <limits>

namespace tranche::guard {
Tenants tenants_of(const grants::Shares& shares) {
  Tenants tenants;
  for (const auto& [key, share] : shares) {
    Tenant& tenant = tenants[share.tenant.empty() ? key.first : share.tenant];
    tenant.pool = share.pool;
    tenant.complete = !share.tenant.empty();
    if (tenant.grants.empty() || tenant.grants.back() != key.first) tenant.grants.push_back(key.first);
    const auto [it, fresh] = tenant.devices.try_emplace(key.second, share);
    if (fresh) continue;
    // Two grants on one device have the sum of their limits, and "not limited" beside anything is not limited.
    auto& all = it->second;
    all.memory = all.memory.value == 0 || share.memory.value == 0 ? Bytes{} : all.memory + share.memory;
    all.threads = all.threads.hundredths == 0 || share.threads.hundredths == 0
                      ? Percent{}
                      : std::min(Percent::whole(100), Percent{all.threads.hundredths + share.threads.hundredths});
  }
  return tenants;
}

std::string tenant_of(const Tenants& tenants, const std::string& grant) {
  if (tenants.contains(grant)) return grant;
  for (const auto& [name, tenant] : tenants)
    if (std::ranges::binary_search(tenant.grants, grant)) return name;
  return grant;
}

std::map<GrantOnDevice, Limit> limits_of(const Tenants& tenants,
                                         const std::map<std::string, std::vector<std::string>>& devices_of_pool,
                                         const std::map<std::string, config::GuardMemory>& policies,
                                         config::GuardMemory otherwise) {
  constexpr Bytes kNoLimit{std::numeric_limits<std::uint64_t>::max()};
  std::map<GrantOnDevice, Limit> limits;
  for (const auto& [name, tenant] : tenants) {
    const auto put = [&](const std::string& device, const std::string& resource, Bytes memory) {
      const auto policy = policies.find(resource);
      limits[{name, device}] = {tenant.pool, resource, memory, policy == policies.end() ? otherwise : policy->second};
    };
    for (const auto& [uuid, device] : tenant.devices)
      put(uuid, device.resource, device.memory.value == 0 ? kNoLimit : device.memory);
    const auto pool = devices_of_pool.find(tenant.pool);
    if (!tenant.complete || pool == devices_of_pool.end()) continue;
    for (const auto& uuid : pool->second)
      if (!tenant.devices.contains(uuid)) put(uuid, tenant.devices.begin()->second.resource, kNotTheirs);
  }
  return limits;
}

}  // namespace tranche::guard
