#include "grants/live/endpoint_collecting.h"

#include "grants/change/held_slots.h"
#include "os/log/log.h"

namespace tranche::agent {
namespace {

bool is_of_claim(const Snapshot& snapshot, const std::string& grant) {
  return snapshot.claims && snapshot.claims->grants.contains(grant);
}

}  // namespace

void DoorCollecting::handed_out(const std::vector<allocate::Grant>& grants) {
  for (const auto& grant : grants) {
    if (!grant.pool.empty()) collection_.handed_out(grant.pool, grant.id);
  }
}

void DoorCollecting::look(const PoolReports& pools, const Snapshot& snapshot) {
  if (!pools.connected) return;
  std::set<std::string> held;
  for (const auto& holding : snapshot.holdings) held.insert(allocate::grant_id(holding.slots));
  std::vector<DoorCollection::Door> doors;
  for (const auto& [id, pool] : pools.pools) {
    for (const auto& door : pool.doors)
      if (!is_of_claim(snapshot, door.grant)) doors.push_back({id, door.grant, !door.clients.empty(), door.made});
  }
  for (const auto& door : collection_.look(doors, held, loop_.now())) remove(door.pool, door.grant, door.made);
}

void DoorCollecting::pod_ended(const std::string& pool, const std::string& grant) {
  collection_.pod_ended(pool, grant, loop_.now());
}

void DoorCollecting::remove(const std::string& pool, const std::string& grant, std::uint64_t made) {
  link_.request(remove_door_request(pool, grant, made), [pool, grant](const Result<std::string>& reply) {
    if (reply) {
      log::info("door.collected", {{"pool", pool}, {"grant", grant}});
    } else {
      log::warning("door.kept", {{"pool", pool}, {"grant", grant}, {"why", reply.error()}});
    }
  });
}

bool DoorCollecting::retire(const PoolReports& pools, const Snapshot& snapshot) {
  const auto before = std::exchange(unheld_, {});
  if (!pools.connected || !snapshot.held_grants || !snapshot.inventory) return false;
  std::set<Door> there;
  for (const auto& [id, pool] : pools.pools) {
    if (plan::find_pool(snapshot.plan, id) != nullptr) continue;
    for (const auto& door : pool.doors) {
      if (!door.clients.empty() || snapshot.held_grants->contains(door.grant) || is_of_claim(snapshot, door.grant))
        continue;
      const Door key{id, door.grant};
      const auto known = before.find(key);
      const MonoTime first = known == before.end() ? snapshot.holdings_read : known->second;
      unheld_[key] = first;
      there.insert(key);
      const bool free =
          snapshot.freed_grants.contains(door.grant) || snapshot.holdings_read - first >= change::HeldSlots::kConfirm;
      if (free && removing_.insert(key).second) remove(id, door.grant, door.made);
    }
  }
  std::erase_if(removing_, [&](const Door& door) { return !there.contains(door); });
  return there.size() > removing_.size();
}

}  // namespace tranche::agent
