#include "node/plan_change.h"

#include <algorithm>

namespace tranche::node {
namespace {

// The pool of the grant's endpoint, and the grant's limits there; nothing if there is no endpoint.
void ask_endpoint(grants::HeldShare& share, const std::string& grant, const mps::PoolReports& reports) {
  for (const auto& [id, pool] : reports.pools) {
    const auto* endpoint = mps::find_endpoint(pool, grant);
    if (endpoint == nullptr) continue;
    share.pool = id;
    const auto limits = endpoint->limits.value_or(mps::GrantLimits{});
    const auto limit = std::ranges::find(limits, share.device, &mps::GrantLimit::uuid);
    if (limit != limits.end()) share.memory = limit->memory;
    return;
  }
}

}  // namespace

std::vector<grants::HeldShare> held_shares(const std::vector<grants::Held>& held, const NodeView& node) {
  const auto& [in, decision] = node;
  std::vector<grants::HeldShare> shares;
  for (const auto& one : held) {
    const std::string grant = grants::grant_id(one.slots);
    std::map<std::string, grants::HeldShare> by_device;
    for (const auto& slot : one.slots) by_device[std::string(plan::device_of(slot))].slots.push_back(slot);
    for (auto& [uuid, share] : by_device) {
      share.resource = one.resource;
      share.device = uuid;
      if (const auto given = decision.shares->find({grant, uuid}); given != decision.shares->end()) {
        share.pool = given->second.pool;
        share.memory = given->second.memory;
      } else if (in.pools.connected) {
        ask_endpoint(share, grant, in.pools);
      } else if (const auto* device = plan::find_device(decision.plan, one.resource, uuid);
                 device != nullptr && plan::is_slot_of(*device, share.slots.front())) {
        share.pool = device->pool;
      }
      shares.push_back(std::move(share));
    }
  }
  return shares;
}

plan::Withheld still_served(const plan::Plan& plan, const mps::PoolReports& reports) {
  plan::Withheld withheld;
  for (const auto& [id, report] : reports.pools) {
    if (plan::find_pool(plan, id) != nullptr) continue;
    for (const auto& resource : plan.resources) {
      for (const auto& device : resource.devices) {
        if (!device.pool.empty() || std::ranges::count(report.devices, device.uuid) == 0) continue;
        for (auto& slot : plan::slot_ids(device))
          withheld[resource.name].emplace(std::move(slot), "MPS pool " + id + " still has its GPU, and ends");
      }
    }
  }
  return withheld;
}

std::set<std::string> held_without_mps(const std::vector<grants::HeldShare>& shares) {
  std::set<std::string> devices;
  for (const auto& share : shares)
    if (share.pool.empty() && (share.device.starts_with("GPU-") || share.device.starts_with("MIG-")))
      devices.insert(share.device);
  return devices;
}

void PlanChange::step(const Inputs& in, Decision& decision, Moved& moved) {
  const auto shares = held_shares(ledger_.held(), {in, decision});
  const auto before = change_.steps();
  const bool other = unguarded_ ? change_.follow({}) : change_.follow(shares, ledger_.unknown());
  moved.other_holders = other_holders(shares, in.withdrawn);
  if (other) {
    moved.plan = moved.plan || decision.plan != change_.in_force();
    decision.plan = change_.in_force();
    decision.change = change_.steps();
    for (const auto& step : change_.steps())
      if (std::ranges::find(before, step) == before.end()) moved.steps.push_back(step);
    moved.done = std::ranges::any_of(before, &grants::Step::waits) &&
                 std::ranges::none_of(change_.steps(), &grants::Step::waits);
  }
  decision.withheld = change_.withheld();
  for (auto& [resource, slots] : still_served(decision.plan, in.pools)) decision.withheld[resource].merge(slots);
}

// A holder whose end will not be reported must not block a pool indefinitely.
HeldWithoutMps PlanChange::other_holders(const std::vector<grants::HeldShare>& shares,
                                         const std::map<std::string, std::string>& withdrawn) const {
  HeldWithoutMps others{unguarded_ ? std::set<std::string>{} : held_without_mps(shares),
                        unguarded_ || ledger_.unknown().empty()};
  for (const auto& [device, why] : withdrawn)
    if (std::ranges::find(shares, device, &grants::HeldShare::device) == shares.end()) others.devices.insert(device);
  return others;
}

}  // namespace tranche::node
