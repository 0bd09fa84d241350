// The parts of a pool that depend on its tier: the choice of the tier, the daemon's settings, and the change of tier.
#include <algorithm>

#include "mps/daemon/room.h"
#include "mps/pool/pool_set.h"
#include "os/log/log.h"

namespace tranche::agent {

mps::TierChoice PoolSet::chosen_tier(const Member& member) const {
  auto choice = mps::choose_tier(member.planned.tier, binary_ ? binary_->abilities : mps::Abilities{});
  const auto may = choice.tier == mps::Tier::kV3 ? may_have_namespaces(member) : Status();
  return may ? choice : mps::fall_back(member.planned.tier, to_string(may.error()));
}

mps::TierChoice PoolSet::tier_of(const Member& member) const {
  auto choice = chosen_tier(member);
  if (!member.pool || member.pool->settings().tier == choice.tier) return choice;
  return mps::until_clients_leave(member.pool->settings().tier, choice.tier);
}

// The limits of a slot of a device, from the resource that it is advertised under.
const plan::PlannedDevice* PoolSet::planned_device(const std::string& uuid, const std::string& pool) const {
  for (const auto& resource : plan_.resources) {
    for (const auto& device : resource.devices) {
      if (device.uuid == uuid && device.pool == pool) return &device;
    }
  }
  return nullptr;
}

Member* PoolSet::running(const std::string& id) {
  const auto found = members_.find(id);
  if (found == members_.end() || !found->second.pool || found->second.switching) return nullptr;
  return &found->second;
}

mps::DaemonLimits PoolSet::limits_of(const Member& member) const {
  auto limits = mps::limits_of(member.planned);
  if (member.namespaces) limits.namespaces = member.namespaces->all();
  return limits;
}

Result<mps::DaemonLimits> PoolSet::limits_for(const std::string& id,
                                              const std::optional<mps::GrantLimits>& limits) const {
  const auto found = members_.find(id);
  if (found == members_.end() || !found->second.pool) return fail(Kind::kUnavailable, "the MPS pool has no daemon", id);
  const host::Pool& pool = *found->second.pool;
  return limits ? mps::limits_for(*limits, pool.settings().devices) : pool.own_limits();
}

void PoolSet::tell_next(const std::string& id, const std::optional<mps::GrantLimits>& limits, host::Pool::Told told) {
  const auto wanted = limits_for(id, limits);
  if (!wanted) return told(std::unexpected(wanted.error()));
  host::Pool& pool = *members_.at(id).pool;
  if (pool.holds(*wanted)) return told({});
  pool.tell_next(*wanted, [id, wanted = *wanted, told = std::move(told)](const Status& status) {
    if (status) log::debug("pool.limits", {{"pool", id}, {"next", mps::to_string(wanted)}});
    told(status);
  });
}

// A daemon's tier is an option at its start. A daemon with clients is never stopped to change its tier.
void PoolSet::switch_tier_if_idle(Member& member) {
  if (!member.pool || member.switching || !binary_ || stopped_) return;
  const auto& s = member.pool->supervisor();
  const auto chosen = chosen_tier(member).tier;
  const bool runs = s.state == mps::State::kServing || s.state == mps::State::kGivenUp;
  if (chosen == member.pool->settings().tier || !runs || mps::live_clients(s) > 0) return;
  log::info("pool.tier_changes", {{"pool", member.planned.id},
                                  {"was", mps::to_string(member.pool->settings().tier)},
                                  {"tier", mps::to_string(chosen)}});
  member.switching = true;
  member.pool->stop();
}

}  // namespace tranche::agent
