#include "programs/node/plan_change.h"

#include <algorithm>
#include <map>
#include <utility>

#include "mps/protocol/other_holders.h"
#include "os/files/files.h"
#include "os/files/kept.h"
#include "os/log/log.h"
#include "plan/slot_id.h"

namespace tranche::agent {
namespace {

// Where the grant's endpoint stands, and what it is worth there; nothing when there is none.
void ask_endpoint(change::HeldShare& share, const std::string& grant, const PoolReports& reports) {
  for (const auto& [id, pool] : reports.pools) {
    const auto endpoint = std::ranges::find(pool.endpoints, grant, &EndpointReport::grant);
    if (endpoint == pool.endpoints.end()) continue;
    share.pool = id;
    const auto limits = endpoint->limits.value_or(mps::GrantLimits{});
    const auto limit = std::ranges::find(limits, share.device, &mps::GrantLimit::uuid);
    if (limit != limits.end()) share.memory = limit->memory;
    return;
  }
}

void ask_plan(change::HeldShare& share, const plan::Plan& plan) {
  const auto* resource = plan::find_resource(plan, share.resource);
  const auto* device = resource == nullptr ? nullptr : change::find_device(*resource, share.device);
  if (device != nullptr && !share.slots.empty() && change::is_slot_of(*device, share.slots.front()))
    share.pool = device->pool;
}

}  // namespace

std::vector<change::HeldShare> held_shares(const std::vector<grants::Held>& held, const Snapshot& snapshot) {
  std::vector<change::HeldShare> shares;
  for (const auto& one : held) {
    const std::string grant = allocate::grant_id(one.slots);
    std::map<std::string, change::HeldShare> by_device;
    for (const auto& slot : one.slots) by_device[std::string(plan::device_of(slot))].slots.push_back(slot);
    for (auto& [uuid, share] : by_device) {
      share.resource = one.resource;
      share.device = uuid;
      share.grant = grant;
      if (const auto given = snapshot.shares.find({grant, uuid}); given != snapshot.shares.end()) {
        share.pool = given->second.pool;
        share.memory = given->second.memory;
      } else if (snapshot.pools.connected) {
        ask_endpoint(share, grant, snapshot.pools);
      } else {
        ask_plan(share, snapshot.plan);
      }
      share.taken = snapshot.taken_shares.contains({grant, uuid});
      shares.push_back(std::move(share));
    }
  }
  return shares;
}

advertise::Withheld still_served(const plan::Plan& plan, const PoolReports& reports,
                                 const std::map<std::string, std::vector<std::string>>& pools) {
  advertise::Withheld withheld;
  for (const auto& [id, report] : reports.pools) {
    if (plan::find_pool(plan, id) != nullptr) continue;
    const auto known = pools.find(id);
    const auto has = [&](const std::string& uuid) {
      if (known != pools.end()) return std::ranges::find(known->second, uuid) != known->second.end();
      return uuid.size() > 4 && id.size() > 4 && uuid.substr(4).starts_with(id.substr(4));
    };
    for (const auto& resource : plan.resources) {
      for (const auto& device : resource.devices) {
        if (!device.pool.empty() || !has(device.uuid)) continue;
        for (std::uint32_t n = 0; n < device.slots; ++n)
          withheld[resource.name].emplace(
              plan::render({device.uuid, device.replicated ? std::optional(n) : std::nullopt}),
              "MPS pool " + id + " still has its GPU, and ends");
      }
    }
  }
  return withheld;
}

std::set<std::string> held_without_mps(const std::vector<change::HeldShare>& shares) {
  std::set<std::string> devices;
  for (const auto& share : shares)
    if (!share.taken && share.pool.empty() && (share.device.starts_with("GPU-") || share.device.starts_with("MIG-")))
      devices.insert(share.device);
  return devices;
}

void PlanChange::listed(const Result<std::vector<host::PodHolding>>& answer, MonoTime asked, bool can_tell) {
  ever_listed_ = ever_listed_ || answer.has_value();
  const bool nobody_tells = !ever_listed_ && !can_tell;
  if (nobody_tells && !nobody_tells_)
    log::warning("change.unguarded", {{"why",
                                       "kubelet's PodResources socket is not there, so it is not known what containers "
                                       "hold: a changed configuration is applied at once"}});
  nobody_tells_ = nobody_tells;
  if (!answer) return ledger_.not_answered(to_string(answer.error()));
  std::vector<grants::Held> all;
  for (const auto& holding : *answer) all.push_back({holding.resource, holding.slots});
  ledger_.listed(all, asked);
}

void PlanChange::follow(Snapshot& snapshot, change::Policy policy) {
  snapshot.taken_shares = ledger_.taken();
  auto shares = held_shares(ledger_.held(), snapshot);
  const auto before = change_.steps();
  const auto ask = [&] {
    if (nobody_tells_) return change_.follow({}, change::Policy::kForce);
    return change_.follow({ledger_.unknown(), shares}, policy);
  };
  bool moved = ask();
  if (take(shares, policy, snapshot.pools.connected))
    moved = ask() || moved;  // a share that was taken does not block any more
  tell_mps(shares);
  snapshot.taken_shares = ledger_.taken();
  if (moved) {
    snapshot.plan = change_.in_force();
    snapshot.change = change_.steps();
    for (const auto& pool : snapshot.plan.pools) pools_[pool.id] = pool.devices;
    say_steps(before);
  }
  snapshot.withheld = change_.withheld();
  for (auto& [resource, slots] : still_served(snapshot.plan, snapshot.pools, pools_))
    snapshot.withheld[resource].merge(slots);
}

// By the plan in effect. A share that was taken returns to its container when the GPU is shared as before.
bool PlanChange::take(std::vector<change::HeldShare>& shares, change::Policy policy, bool endpoints_known) {
  std::set<grants::GrantOnDevice> held;
  bool other = false;
  for (auto& share : shares) {
    const grants::GrantOnDevice key{share.grant, share.device};
    held.insert(key);
    const std::string text = change_.taken_for(share);
    if (text.empty()) {
      if (endpoints_known) ledger_.give_back(key);  // otherwise the plan is used, which does not know the time before
    } else if (policy == change::Policy::kForce) {
      ledger_.take(key, text);
    }
    const bool taken = ledger_.taken().contains(key);
    other = other || share.taken != taken;
    share.taken = taken;
  }
  if (ledger_.unknown().empty()) ledger_.keep_taken(held);
  return other;
}

std::vector<PlanChange::Loss> PlanChange::losses_to_tell(const std::vector<host::PodHolding>& holdings) {
  std::vector<Loss> losses;
  if (std::ranges::all_of(ledger_.taken(), [](const auto& entry) { return entry.second.told; })) return losses;
  for (const auto& holding : holdings)
    for (auto& [device, text] : ledger_.tell_taken(allocate::grant_id(holding.slots)))
      losses.push_back({holding, device, text});
  return losses;
}

void PlanChange::say_steps(const std::vector<change::Step>& before) const {
  for (const auto& step : change_.steps()) {
    if (std::ranges::find(before, step) != before.end()) continue;
    log::info(step.waits_for.empty() ? "change.step" : "change.waits", {{"what", change::to_string(step)}});
  }
  const auto waits = [](const change::Step& step) { return !step.waits_for.empty(); };
  if (std::ranges::any_of(before, waits) && std::ranges::none_of(change_.steps(), waits)) log::info("change.done");
}

void PlanChange::tell_mps(const std::vector<change::HeldShare>& shares) {
  // A holder whose end will not be reported must not block a pool indefinitely.
  auto devices = nobody_tells_ ? std::set<std::string>{} : held_without_mps(shares);
  for (const auto& device : withdrawn_)
    if (std::ranges::find(shares, device, &change::HeldShare::device) == shares.end()) devices.insert(device);
  if (devices == told_ && ever_told_) return;
  const bool known = nobody_tells_ || ledger_.unknown().empty();
  if (devices.empty() && !ever_told_ && !known)
    return;  // what an agent before this one wrote is still the best to go by
  const auto dir = host::Dir::open(mps_root_);
  if (dir && devices.empty() && !ever_told_ && dir->read(mps::kOtherHoldersFile).value_or("").empty()) {
    ever_told_ = true;
    return;
  }
  const Status written = dir ? host::write_kept(*dir, mps::kOtherHoldersFile, mps::render_other_holders(devices), 0644)
                             : std::unexpected(dir.error());
  if (!written) {
    const std::string why = to_string(written.error());
    // Without an MPS directory there is no `tranche mps` to notify.
    if (why != not_told_ && written.error().kind != Kind::kNotFound)
      log::warning("other_holders.not_written", {{"why", why}});
    not_told_ = why;
    return;
  }
  not_told_.clear();
  ever_told_ = true;
  told_ = std::move(devices);
}

}  // namespace tranche::agent
