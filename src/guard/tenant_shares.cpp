#include "guard/tenant_shares.h"

#include <algorithm>
#include <limits>

namespace tranche::guard {
namespace {

constexpr Percent kAll = Percent::whole(100);

const std::string& tenant_word(const GrantOnDevice& key, const grants::Share& share) {
  return share.tenant.empty() ? key.first : share.tenant;
}

// Two grants on one device have the sum of their limits, and "not limited" beside anything is not limited.
void add(auto& to, const grants::Share& share) {
  to.memory = to.memory.value == 0 || share.memory.value == 0 ? Bytes{} : to.memory + share.memory;
  to.threads = to.threads.hundredths == 0 || share.threads.hundredths == 0
                   ? Percent{}
                   : std::min(kAll, Percent{to.threads.hundredths + share.threads.hundredths});
}

}  // namespace

Tenants tenants_of(const grants::Shares& shares) {
  Tenants tenants;
  for (const auto& [key, share] : shares) {
    Tenant& tenant = tenants[tenant_word(key, share)];
    tenant.pool = share.pool;
    tenant.complete = !share.tenant.empty();
    if (tenant.grants.empty() || tenant.grants.back() != key.first) tenant.grants.push_back(key.first);
    const auto [it, fresh] = tenant.devices.try_emplace(key.second, share);
    if (!fresh) add(it->second, share);
  }
  return tenants;
}

HeldShares held_shares(const grants::Shares& shares) {
  HeldShares held;
  for (const auto& [key, share] : shares) {
    const auto [it, fresh] =
        held.try_emplace({tenant_word(key, share), key.second}, share.resource, share.memory, share.threads);
    if (!fresh) add(it->second, share);
  }
  return held;
}

std::string_view tenant_in(const grants::Shares& shares, const std::string& grant) {
  const auto first = shares.lower_bound({grant, ""});
  if (first == shares.end() || first->first.first != grant) return {};
  return tenant_word(first->first, first->second);
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
