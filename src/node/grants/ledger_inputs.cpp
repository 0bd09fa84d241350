#include "node/grants/ledger_inputs.h"

namespace tranche::agent {

std::vector<grants::Named> named_grants(const std::vector<Holder>& holders) {
  std::vector<grants::Named> named;
  for (const auto& holder : holders)
    if (!holder.grant.empty())
      named.push_back({{tenant_key(holder), holder.grant}, holder.resource, holder.devices, !holder.claim.empty()});
  return named;
}

grants::Endpoint endpoint_of(const std::string& pool, const EndpointReport& endpoint) {
  grants::Endpoint out{pool, endpoint.grant, !endpoint.clients.empty(), endpoint.made, {}};
  for (const auto& limit : endpoint.limits.value_or(mps::GrantLimits{}))
    out.limits.push_back({.uuid = limit.uuid, .limits = {.memory = limit.memory, .threads = limit.threads}});
  return out;
}

std::optional<std::vector<grants::Endpoint>> endpoints_of(const PoolReports& pools) {
  if (!pools.connected) return std::nullopt;
  std::vector<grants::Endpoint> endpoints;
  for (const auto& [id, pool] : pools.pools)
    for (const auto& endpoint : pool.endpoints) endpoints.push_back(endpoint_of(id, endpoint));
  return endpoints;
}

}  // namespace tranche::agent
