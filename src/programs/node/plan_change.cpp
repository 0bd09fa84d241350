#include "programs/node/plan_change.h"

#include <algorithm>
#include <map>
#include <utility>

#include "mps/protocol/other_holders.h"
#include "os/files/files.h"
#include "os/files/kept.h"
#include "os/log/log.h"
#include "plan/slot_id.h"
#include "programs/node/recall.h"

namespace tranche::agent {
namespace {

constexpr const char* kTakenFile = "taken-shares.txt";

// Where the grant's endpoint stands, and what it is worth there; nothing when there is none.
void ask_endpoint(change::HeldShare& share, const std::string& grant, const PoolReports& reports) {
  for (const auto& [id, pool] : reports.pools) {
    const auto endpoint = std::ranges::find(pool.endpoints, grant, &EndpointReport::grant);
    if (endpoint == pool.endpoints.end()) continue;
    share.pool = id;
    const auto limits = endpoint->limits.value_or(EndpointLimits{});
    const auto limit = std::ranges::find(limits, share.device, &EndpointLimit::uuid);
    if (limit != limits.end()) share.memory = mib(limit->memory_mib);
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

std::vector<change::HeldShare> held_shares(const std::vector<change::Held>& held, const Snapshot& snapshot) {
  std::vector<change::HeldShare> shares;
  for (const auto& one : held) {
    const std::string grant = allocate::grant_id(one.slots);
    std::map<std::string, change::HeldShare> by_device;
    for (const auto& slot : one.slots) by_device[std::string(plan::device_of(slot))].slots.push_back(slot);
    for (auto& [uuid, share] : by_device) {
      share.resource = one.resource;
      share.device = uuid;
      share.grant = grant;
      if (const auto worth = snapshot.worths.find({grant, uuid}); worth != snapshot.worths.end()) {
        share.pool = worth->second.pool;
        share.memory = worth->second.memory;
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

PlanChange::PlanChange(std::string mps_root, std::string run_dir)
    : mps_root_(std::move(mps_root)), run_dir_(std::move(run_dir)) {
  if (run_dir_.empty()) return;
  const auto text =
      recall(run_dir_, kTakenFile, "pods from which a forced change took GPUs before are not shown as such");
  taken_ = change::parse_taken(text);
  tell_if_partly(run_dir_, kTakenFile, change::render_taken(taken_) == text);
}

void PlanChange::given(const std::vector<allocate::Grant>& grants, MonoTime now) {
  const auto before = taken_;
  for (const auto& grant : grants) {
    slots_.given({grant.resource, grant.slots}, now);
    std::erase_if(taken_, [&](const auto& entry) { return entry.first.first == grant.id; });  // by the plan of now
  }
  if (taken_ != before) write_taken();
}

void PlanChange::listed(const Result<std::vector<host::PodHolding>>& answer, MonoTime asked, bool can_tell) {
  ever_listed_ = ever_listed_ || answer.has_value();
  const bool nobody_tells = !ever_listed_ && !can_tell;
  if (nobody_tells && !nobody_tells_)
    log::warning("change.unguarded", {{"why",
                                       "kubelet's PodResources socket is not there, so it is not known what containers "
                                       "hold: a changed configuration is applied at once"}});
  nobody_tells_ = nobody_tells;
  if (!answer) return slots_.not_answered(to_string(answer.error()));
  std::vector<change::Held> all;
  for (const auto& holding : *answer) all.push_back({holding.resource, holding.slots});
  slots_.listed(all, asked);
}

void PlanChange::follow(Snapshot& snapshot, change::Policy policy) {
  snapshot.taken_shares = taken_;
  auto shares = held_shares(slots_.held(), snapshot);
  snapshot.held_grants.reset();
  snapshot.freed_grants.clear();
  for (const auto& freed : slots_.freed()) snapshot.freed_grants.insert(allocate::grant_id(freed.slots));
  if (slots_.unknown().empty()) {
    snapshot.held_grants.emplace();
    for (const auto& held : slots_.held()) snapshot.held_grants->insert(allocate::grant_id(held.slots));
  }
  const auto before = change_.steps();
  const auto ask = [&] {
    if (nobody_tells_) return change_.follow({}, change::Policy::kForce);
    return change_.follow({slots_.unknown(), shares}, policy);
  };
  bool moved = ask();
  if (take(shares, policy, snapshot.pools.connected))
    moved = ask() || moved;  // what is taken is in nobody's way any more
  tell_mps(shares);
  snapshot.taken_shares = taken_;
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

// By the plan that is in force now. What was taken is its container's again when the GPU is shared as it was.
bool PlanChange::take(std::vector<change::HeldShare>& shares, change::Policy policy, bool endpoints_known) {
  const auto before = taken_;
  std::set<std::pair<std::string, std::string>> held;
  bool other = false;
  for (auto& share : shares) {
    const std::pair key{share.grant, share.device};
    held.insert(key);
    const std::string text = change_.taken_for(share);
    if (text.empty()) {
      if (endpoints_known) taken_.erase(key);  // else the plan is believed, which says nothing of before
    } else if (policy == change::Policy::kForce) {
      taken_.try_emplace(key, change::Taken{text, false});
    }
    other = other || share.taken != taken_.contains(key);
    share.taken = taken_.contains(key);
  }
  if (slots_.unknown().empty()) std::erase_if(taken_, [&](const auto& entry) { return !held.contains(entry.first); });
  if (taken_ != before) write_taken();
  return other;
}

std::vector<PlanChange::Loss> PlanChange::losses_to_tell(const std::vector<host::PodHolding>& holdings) {
  std::vector<Loss> losses;
  if (std::ranges::all_of(taken_, [](const auto& entry) { return entry.second.told; })) return losses;
  for (const auto& holding : holdings) {
    const std::string grant = allocate::grant_id(holding.slots);
    for (auto& [key, taken] : taken_) {
      if (key.first != grant || taken.told) continue;
      taken.told = true;
      losses.push_back({holding, key.second, taken.text});
    }
  }
  if (!losses.empty()) write_taken();
  return losses;
}

void PlanChange::write_taken() {
  if (run_dir_.empty()) return;
  const auto dir = host::Dir::open(run_dir_);
  const Status written =
      dir ? host::write_kept(*dir, kTakenFile, change::render_taken(taken_), 0600) : std::unexpected(dir.error());
  if (!written) log::warning("change.taken_not_written", {{"why", written.error()}});
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
  // A holder of whose end nobody would ever tell must not keep a pool from beginning for good.
  auto devices = nobody_tells_ ? std::set<std::string>{} : held_without_mps(shares);
  for (const auto& device : withdrawn_)
    if (std::ranges::find(shares, device, &change::HeldShare::device) == shares.end()) devices.insert(device);
  if (devices == told_ && ever_told_) return;
  const bool known = nobody_tells_ || slots_.unknown().empty();
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
    // Without an MPS directory there is no `tranche mps` here that could be told.
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
