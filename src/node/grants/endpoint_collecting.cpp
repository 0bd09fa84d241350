#include "node/grants/endpoint_collecting.h"

#include <vector>

#include "node/grants/ledger_inputs.h"
#include "os/log/log.h"

namespace tranche::agent {
namespace {

// In doubt it is: what an older or a newer agent has prepared meanwhile is not known here.
bool may_be_of_claim(const Inputs& in, const std::string& grant) {
  const auto& claims = in.claims;
  return claims && (claims->standing != ClaimsStanding::kOurs || claims->grants.contains(grant));
}

}  // namespace

void EndpointCollecting::look(const PoolReports& pools, const NodeView& node) {
  auto endpoints = endpoints_of(pools);
  if (!endpoints) return;
  std::erase_if(*endpoints, [&](const grants::Endpoint& endpoint) { return may_be_of_claim(node.in, endpoint.grant); });
  for (const auto& endpoint : ledger_.over(*endpoints, loop_.now())) remove(endpoint);
}

void EndpointCollecting::pod_ended(const std::string& pool, const std::string& grant) {
  ledger_.pod_ended(pool, grant, loop_.now());
}

void EndpointCollecting::remove(const grants::Endpoint& endpoint) {
  const RemoveEndpointRequest remove{{endpoint.pool, endpoint.grant}, endpoint.made};
  mps_.request(remove, [pool = endpoint.pool, grant = endpoint.grant](const Status& removed) {
    if (removed) {
      log::info("endpoint.collected", {{"pool", pool}, {"grant", grant}});
    } else {
      log::warning("endpoint.kept", {{"pool", pool}, {"grant", grant}, {"why", removed.error()}});
    }
  });
}

bool EndpointCollecting::retire(const PoolReports& pools, const NodeView& node) {
  std::vector<grants::Endpoint> endpoints;
  for (const auto& [id, pool] : pools.pools) {
    if (plan::find_pool(node.decision.plan, id) != nullptr) continue;
    for (const auto& endpoint : pool.endpoints)
      if (endpoint.clients.empty() && !may_be_of_claim(node.in, endpoint.grant))
        endpoints.push_back(endpoint_of(id, endpoint));
  }
  const auto retiring = ledger_.retire(endpoints, pools.connected && node.in.inventory.has_value());
  for (const auto& endpoint : retiring.now) remove(endpoint);
  return retiring.later;
}

}  // namespace tranche::agent
