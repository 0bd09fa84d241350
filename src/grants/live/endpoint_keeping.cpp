#include "grants/live/endpoint_keeping.h"

#include <algorithm>
#include <set>

#include "os/log/log.h"

namespace tranche::agent {
namespace {

constexpr Duration kFirstPause = std::chrono::seconds(1);
constexpr Duration kLongestPause = std::chrono::minutes(1);
constexpr Duration kShownWithin = std::chrono::seconds(5);  // in a report, after the request

Duration pause_after(int failures) {
  Duration pause = kFirstPause;
  for (int i = 1; i < failures && pause < kLongestPause; ++i) pause *= 2;
  return std::min(pause, kLongestPause);
}

}  // namespace

EndpointLimits limits_of(const guard::Tenant& tenant) {
  EndpointLimits limits;
  for (const auto& [uuid, device] : tenant.devices) {
    if (!device.threads) return {};
    limits.push_back({uuid, device.memory.in_mib(), device.threads->hundredths});
  }
  return limits;
}

void EndpointKeeping::follow(const guard::Tenants& tenants, const PoolReports& pools) {
  if (!pools.connected) return;
  std::set<Name> wrong;
  for (const auto& [name, tenant] : tenants) {
    const auto pool = pools.pools.find(tenant.pool);
    if (pool == pools.pools.end() || pool->second.endpoint != "relay") continue;  // a link does not distinguish clients
    const EndpointLimits limits = limits_of(tenant);
    if (limits.empty()) continue;
    for (const auto& grant : tenant.grants) {
      const auto endpoint = std::ranges::find(pool->second.endpoints, grant, &EndpointReport::grant);
      if (endpoint == pool->second.endpoints.end()) continue;
      auto shown = endpoint->limits.value_or(EndpointLimits{});
      std::ranges::sort(shown, {}, &EndpointLimit::uuid);
      if (shown == limits) continue;
      wrong.insert({tenant.pool, grant});
      tell({tenant.pool, grant}, limits);
    }
  }
  std::erase_if(told_, [&](const auto& entry) { return !wrong.contains(entry.first); });
}

void EndpointKeeping::tell(const Name& endpoint, const EndpointLimits& limits) {
  Told& told = told_[endpoint];
  if (told.limits != limits) told = {.limits = limits};
  if (told.waiting || loop_.now() < told.not_before) return;
  told.waiting = true;
  link_.request(open_endpoint_request(endpoint.first, endpoint.second, limits), [this, endpoint,
                                                                                 limits](const auto& reply) {
    const auto it = told_.find(endpoint);
    if (it == told_.end() || it->second.limits != limits) return;
    it->second.waiting = false;
    if (reply) {
      log::info("endpoint.limits", {{"pool", endpoint.first}, {"grant", endpoint.second}, {"devices", limits.size()}});
      it->second.not_before = loop_.now() + kShownWithin;
      return;
    }
    if (it->second.failures++ == 0)
      log::warning("endpoint.limits_not_told",
                   {{"pool", endpoint.first}, {"grant", endpoint.second}, {"why", reply.error()}});
    it->second.not_before = loop_.now() + pause_after(it->second.failures);
  });
}

}  // namespace tranche::agent
