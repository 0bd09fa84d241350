#include "node/grants/tenants.h"

#include <algorithm>
#include <set>

#include "base/backoff.h"
#include "os/log/log.h"

namespace tranche::node {
namespace {

constexpr Duration kFirstPause = std::chrono::seconds(1);
constexpr Duration kLongestPause = std::chrono::minutes(1);
constexpr Duration kShownWithin = std::chrono::seconds(5);  // in a report, after the request

mps::GrantLimits limits_of(const guard::Tenant& tenant) {
  mps::GrantLimits limits;
  for (const auto& [uuid, device] : tenant.devices)
    limits.push_back({uuid, mib(device.memory.in_mib()), device.threads});
  return limits;
}

}  // namespace

void EndpointLimitSender::follow(const guard::Tenants& tenants, const mps::PoolReports& pools) {
  if (!pools.connected) return;
  std::set<mps::EndpointName> wrong;
  for (const auto& [name, tenant] : tenants) {
    const auto pool = pools.pools.find(tenant.pool);
    if (pool == pools.pools.end() || pool->second.endpoint != "relay") continue;  // a link does not distinguish clients
    const auto limits = limits_of(tenant);
    for (const auto& grant : tenant.grants) {
      const auto* endpoint = mps::find_endpoint(pool->second, grant);
      if (endpoint == nullptr) continue;
      auto shown = endpoint->limits.value_or(mps::GrantLimits{});
      std::ranges::sort(shown, {}, &mps::GrantLimit::uuid);
      if (shown == limits) continue;
      wrong.insert({tenant.pool, grant});
      request({tenant.pool, grant}, limits);
    }
  }
  std::erase_if(requested_, [&](const auto& entry) { return !wrong.contains(entry.first); });
}

void EndpointLimitSender::request(const mps::EndpointName& endpoint, const mps::GrantLimits& limits) {
  Requested& requested = requested_[endpoint];
  if (requested.limits != limits) requested = {.limits = limits};
  if (requested.waiting || loop_.now() < requested.not_before) return;
  requested.waiting = true;
  mps_.request(mps::OpenEndpointRequest{endpoint, {limits}}, [this, endpoint, limits](const Status& opened) {
    const auto it = requested_.find(endpoint);
    if (it == requested_.end() || it->second.limits != limits) return;
    it->second.waiting = false;
    if (opened) {
      log::info("endpoint.limits", {{"pool", endpoint.pool}, {"grant", endpoint.grant}, {"devices", limits.size()}});
      it->second.not_before = loop_.now() + kShownWithin;
      return;
    }
    if (it->second.failures++ == 0)
      log::warning("endpoint.limits_not_told",
                   {{"pool", endpoint.pool}, {"grant", endpoint.grant}, {"why", opened.error()}});
    it->second.not_before = loop_.now() + doubled(kFirstPause, kLongestPause, it->second.failures);
  });
}

}  // namespace tranche::node
