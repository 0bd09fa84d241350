// What of a pool depends on its tier: which it is, what its daemon is told, its SM partitions, and the change to
// another.
#include <algorithm>

#include "agent/mps/pool_set.h"
#include "host/log/log.h"
#include "mps/room.h"

namespace tranche::agent {
namespace {

constexpr Duration kChangeDeadline = std::chrono::seconds(5);

}  // namespace

mps::TierChoice PoolSet::chosen_tier(const Member& member) const {
  auto choice = mps::choose_tier(member.planned.tier, binary_ ? binary_->abilities : mps::Abilities{});
  const auto may = choice.tier == mps::Tier::kStatic ? may_be_cut(member)
                   : choice.tier == mps::Tier::kV3   ? may_have_namespaces(member)
                                                     : Status();
  return may ? choice : mps::fall_back(member.planned.tier, to_string(may.error()));
}

Status PoolSet::may_be_cut(const Member& member) const {
  const auto cut = planned_cut(member);
  return cut ? Status() : std::unexpected(cut.error());
}

mps::TierChoice PoolSet::tier_of(const Member& member) const {
  auto choice = chosen_tier(member);
  if (!member.pool || member.pool->settings().tier == choice.tier) return choice;
  return mps::until_clients_leave(member.pool->settings().tier, choice.tier);
}

// What a slot of a device is worth, as the resource that it is advertised under says.
const plan::PlannedDevice* PoolSet::planned_device(const std::string& uuid, const std::string& pool) const {
  for (const auto& resource : plan_.resources) {
    for (const auto& device : resource.devices) {
      if (device.uuid == uuid && device.pool == pool) return &device;
    }
  }
  return nullptr;
}

// How the plan cuts the GPU. A slot's worth in SMs follows from the chunks, not from the plan's percentage.
Result<mps::PartitionBook> PoolSet::planned_cut(const Member& member) const {
  if (member.planned.is_mig || member.planned.devices.size() != 1)
    return fail(Kind::kUnsupported,
                "static SM partitions are made of one whole GPU, and this pool serves a MIG device or several GPUs");
  const std::string& uuid = member.planned.devices.front();
  if (const auto* device = planned_device(uuid, member.planned.id)) {
    TRY(const auto chunks, mps::plan_chunks(device->compute_capability, device->sm_count, device->slots));
    return mps::cut(uuid, chunks, device->slots);
  }
  return fail(Kind::kNotFound, "the plan has no slots of this GPU", uuid);
}

// A daemon of before may have partitions that the plan knows nothing of: then it is left as it is.
Status PoolSet::open_partitions(Member& member) {
  member.partitions.reset();
  if (member.pool->settings().tier != mps::Tier::kStatic) return {};
  auto cut = planned_cut(member);
  if (!cut) return {};
  const std::string id = member.planned.id;
  TRY(member.partitions,
      PartitionKeeper::open(settings_.paths.pool(id), *std::move(cut), [this, id](const auto& wanted, auto done) {
        const auto down = fail(Kind::kUnavailable, "the MPS daemon of this pool does not serve", id);
        Member* asking = running(id);
        if (asking == nullptr || asking->pool->supervisor().state != mps::State::kServing) return done(down);
        auto limits = limits_of(*asking);
        limits.partitions = wanted;
        asking->pool->change(limits, kChangeDeadline, [this, id, down, done](const Status& changed) {
          if (!changed) return done(std::unexpected(changed.error()));
          Member* asked = running(id);
          if (asked == nullptr || !asked->pool->supervisor().read_back) return done(down);
          done(asked->pool->supervisor().read_back->partitions);
        });
      }));
  return {};
}

Member* PoolSet::running(const std::string& id) {
  const auto found = members_.find(id);
  if (found == members_.end() || !found->second.pool || found->second.switching) return nullptr;
  return &found->second;
}

bool PoolSet::replan_partitions(Member& member) {
  if (!member.partitions || !member.pool) return false;
  auto cut = planned_cut(member);
  if (!cut) return false;
  const bool has_doors = settings_.doors != nullptr && settings_.doors->has_doors(member.planned.id);
  const bool unused = !has_doors && mps::live_clients(member.pool->supervisor()) == 0;
  return member.partitions->plan(*std::move(cut), unused);
}

mps::DaemonLimits PoolSet::limits_of(const Member& member) const {
  auto limits = mps::limits_of(member.planned);
  if (member.partitions) limits.partitions = member.partitions->wanted();
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

// A daemon's tier is an option of its start. One with clients is never ended for another.
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

void PoolSet::give_partition(const std::string& pool, const std::vector<std::uint32_t>& slots,
                             PartitionKeeper::Done done) {
  const auto found = members_.find(pool);
  if (found == members_.end()) return done(std::string());
  Member& member = found->second;
  if (tier_of(member).tier != mps::Tier::kStatic) return done(std::string());
  if (!member.pool || !member.partitions || member.switching)
    return done(fail(Kind::kUnavailable, "the MPS daemon of this pool has no SM partitions yet", pool));
  member.partitions->give(slots, member.pool->supervisor(), std::move(done));
}

}  // namespace tranche::agent
