#include "grants/live/endpoint_keeping.h"

#include <algorithm>
#include <set>

#include "os/log/log.h"

namespace tranche::agent {
namespace {

constexpr Duration kFirstPause = std::chrono::seconds(1);
constexpr Duration kLongestPause = std::chrono::minutes(1);
constexpr Duration kShownWithin = std::chrono::seconds(5);  // in a report, after it was told

Duration pause_after(int failures) {
  Duration pause = kFirstPause;
  for (int i = 1; i < failures && pause < kLongestPause; ++i) pause *= 2;
  return std::min(pause, kLongestPause);
}

}  // namespace

DoorLimits limits_of(const guard::Tenant& tenant) {
  DoorLimits limits;
  for (const auto& [uuid, device] : tenant.devices) {
    if (!device.threads) return {};
    limits.push_back({uuid, device.memory.in_mib(), device.threads->hundredths});
  }
  return limits;
}

void DoorKeeping::follow(const guard::Tenants& tenants, const PoolReports& pools) {
  if (!pools.connected) return;
  std::set<Name> wrong;
  for (const auto& [name, tenant] : tenants) {
    const auto pool = pools.pools.find(tenant.pool);
    if (pool == pools.pools.end() || pool->second.door != "gate") continue;  // behind links nobody is told apart
    const DoorLimits limits = limits_of(tenant);
    if (limits.empty()) continue;
    for (const auto& grant : tenant.grants) {
      const auto door = std::ranges::find(pool->second.doors, grant, &DoorReport::grant);
      if (door == pool->second.doors.end()) continue;
      auto shown = door->limits.value_or(DoorLimits{});
      std::ranges::sort(shown, {}, &DoorLimit::uuid);
      if (shown == limits) continue;
      wrong.insert({tenant.pool, grant});
      tell({tenant.pool, grant}, limits);
    }
  }
  std::erase_if(told_, [&](const auto& entry) { return !wrong.contains(entry.first); });
}

void DoorKeeping::tell(const Name& door, const DoorLimits& limits) {
  Told& told = told_[door];
  if (told.limits != limits) told = {.limits = limits};
  if (told.waiting || loop_.now() < told.not_before) return;
  told.waiting = true;
  link_.request(open_door_request(door.first, door.second, limits), [this, door, limits](const auto& reply) {
    const auto it = told_.find(door);
    if (it == told_.end() || it->second.limits != limits) return;
    it->second.waiting = false;
    if (reply) {
      log::info("door.limits", {{"pool", door.first}, {"grant", door.second}, {"devices", limits.size()}});
      it->second.not_before = loop_.now() + kShownWithin;
      return;
    }
    if (it->second.failures++ == 0)
      log::warning("door.limits_not_told", {{"pool", door.first}, {"grant", door.second}, {"why", reply.error()}});
    it->second.not_before = loop_.now() + pause_after(it->second.failures);
  });
}

}  // namespace tranche::agent
