#include "grants/live/endpoint_collecting.h"

#include "grants/change/held_slots.h"
#include "os/log/log.h"

namespace tranche::agent {
namespace {

bool is_of_claim(const Snapshot& snapshot, const std::string& grant) {
  return snapshot.claims && snapshot.claims->grants.contains(grant);
}

}  // namespace

void EndpointCollecting::handed_out(const std::vector<allocate::Grant>& grants) {
  for (const auto& grant : grants) {
    if (!grant.pool.empty()) collection_.handed_out(grant.pool, grant.id);
  }
}

void EndpointCollecting::look(const PoolReports& pools, const Snapshot& snapshot) {
  if (!pools.connected) return;
  std::set<std::string> held;
  for (const auto& holding : snapshot.holdings) held.insert(allocate::grant_id(holding.slots));
  std::vector<EndpointCollection::Endpoint> endpoints;
  for (const auto& [id, pool] : pools.pools) {
    for (const auto& endpoint : pool.endpoints)
      if (!is_of_claim(snapshot, endpoint.grant))
        endpoints.push_back({id, endpoint.grant, !endpoint.clients.empty(), endpoint.made});
  }
  for (const auto& endpoint : collection_.look(endpoints, held, loop_.now()))
    remove(endpoint.pool, endpoint.grant, endpoint.made);
}

void EndpointCollecting::pod_ended(const std::string& pool, const std::string& grant) {
  collection_.pod_ended(pool, grant, loop_.now());
}

void EndpointCollecting::remove(const std::string& pool, const std::string& grant, std::uint64_t made) {
  link_.request(remove_endpoint_request(pool, grant, made), [pool, grant](const Result<std::string>& reply) {
    if (reply) {
      log::info("endpoint.collected", {{"pool", pool}, {"grant", grant}});
    } else {
      log::warning("endpoint.kept", {{"pool", pool}, {"grant", grant}, {"why", reply.error()}});
    }
  });
}

bool EndpointCollecting::retire(const PoolReports& pools, const Snapshot& snapshot) {
  const auto before = std::exchange(unheld_, {});
  if (!pools.connected || !snapshot.held_grants || !snapshot.inventory) return false;
  std::set<Endpoint> there;
  for (const auto& [id, pool] : pools.pools) {
    if (plan::find_pool(snapshot.plan, id) != nullptr) continue;
    for (const auto& endpoint : pool.endpoints) {
      if (!endpoint.clients.empty() || snapshot.held_grants->contains(endpoint.grant) ||
          is_of_claim(snapshot, endpoint.grant))
        continue;
      const Endpoint key{id, endpoint.grant};
      const auto known = before.find(key);
      const MonoTime first = known == before.end() ? snapshot.holdings_read : known->second;
      unheld_[key] = first;
      there.insert(key);
      const bool free = snapshot.freed_grants.contains(endpoint.grant) ||
                        snapshot.holdings_read - first >= change::HeldSlots::kConfirm;
      if (free && removing_.insert(key).second) remove(id, endpoint.grant, endpoint.made);
    }
  }
  std::erase_if(removing_, [&](const Endpoint& endpoint) { return !there.contains(endpoint); });
  return there.size() > removing_.size();
}

}  // namespace tranche::agent
