#include "guard/tenants.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

namespace tranche::guard {
namespace {

constexpr Percent kAll = Percent::whole(100);

const std::string& tenant_word(const GrantOnDevice& key, const Worth& worth) {
  return worth.tenant.empty() ? key.first : worth.tenant;
}

// Two grants on one device are worth their sum, and "not limited" beside anything is not limited.
void add(Tenant::OnDevice& to, const Worth& worth) {
  to.memory = to.memory.value == 0 || worth.memory.value == 0 ? Bytes{} : to.memory + worth.memory;
  if (!to.threads || !worth.threads) {
    to.threads.reset();
  } else if (to.threads->hundredths == 0 || worth.threads->hundredths == 0) {
    to.threads = Percent{};
  } else {
    to.threads = std::min(kAll, Percent{to.threads->hundredths + worth.threads->hundredths});
  }
}

}  // namespace

void join(Worths& worths, const std::vector<HeldGrant>& held) {
  std::map<std::string, std::string> pool_of;
  for (const auto& [key, worth] : worths) pool_of.try_emplace(key.first, worth.pool);
  std::map<std::pair<std::string, std::string>, std::set<std::string>> groups;  // container, pool
  for (const auto& [container, grant] : held) {
    if (const auto pool = pool_of.find(grant); pool != pool_of.end()) groups[{container, pool->second}].insert(grant);
  }
  for (const auto& [key, grants] : groups) {
    for (auto& [on, worth] : worths) {
      if (grants.contains(on.first)) {
        worth.tenant = *grants.begin();
      } else if (worth.tenant == *grants.begin()) {  // kubelet does not list it there any more
        worth.tenant = on.first;
      }
    }
  }
}

void part(Worths& worths, const std::string& grant) {
  std::set<std::string> tenants{grant};
  for (const auto& [key, worth] : worths)
    if (key.first == grant && !worth.tenant.empty()) tenants.insert(worth.tenant);
  for (auto& [key, worth] : worths) {
    if (key.first == grant) {
      worth.tenant.clear();
    } else if (tenants.contains(worth.tenant)) {
      worth.tenant = key.first;
    }
  }
}

Tenants tenants_of(const Worths& worths) {
  Tenants tenants;
  for (const auto& [key, worth] : worths) {
    Tenant& tenant = tenants[tenant_word(key, worth)];
    tenant.pool = worth.pool;
    tenant.told = !worth.tenant.empty();
    if (tenant.grants.empty() || tenant.grants.back() != key.first) tenant.grants.push_back(key.first);
    const auto [it, fresh] = tenant.devices.try_emplace(key.second, worth.resource, worth.memory, worth.threads);
    if (!fresh) add(it->second, worth);
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
    if (!tenant.told || pool == devices_of_pool.end()) continue;
    for (const auto& uuid : pool->second)
      if (!tenant.devices.contains(uuid)) put(uuid, tenant.devices.begin()->second.resource, kNotTheirs);
  }
  return limits;
}

}  // namespace tranche::guard
