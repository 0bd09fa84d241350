#include "node/decide.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>

#include "gpu/health/healthchecks.h"
#include "node/observe/tenant_metrics.h"
#include "node/reports.h"
#include "plan/plan.h"

namespace tranche::node {
namespace {

// A plan that cannot be made leaves the one before in its place.
void want_plan(const Inputs& in, const Records& records, Decided& out) {
  if (!in.inventory) return;
  auto plan = plan::make_plan(in.config.config, *in.inventory);
  auto problems = plan ? std::vector<Problem>{} : plan.error();
  problems.insert(problems.end(), in.node_problems.begin(), in.node_problems.end());
  out.problems = problems != out.decision.plan_problems;
  out.decision.plan_problems = std::move(problems);
  if (plan) records.change.aim(*std::move(plan));
}

void read_shares(const Records& records, Decision& decision) {
  if (*decision.shares != records.ledger.shares()) decision.shares = records.ledger.shares();
}

// An equal list is not replaced, because snapshots and other parts of the agent hold it too.
void find_holders(const Inputs& in, const Records& records, Decision& decision) {
  SharedList<Holder> found = holders({in, decision}, records.pods);
  if (found != decision.holders) decision.holders = std::move(found);
}

// The ledger learns whose the grants are, and with that limits that it did not know.
void name_grants(const Inputs& in, const Records& records, Decision& decision, MonoTime now) {
  const bool complete = in.holdings_problem.empty() && !in.holdings.empty();
  find_holders(in, records, decision);
  records.ledger.named(decision.holders, decision.plan, endpoints_of(in.pools), complete, now);
  if (*decision.shares == records.ledger.shares()) return;
  read_shares(records, decision);
  find_holders(in, records, decision);
}

bool is_for_claims(const plan::Plan& plan, const std::string& gpu) {
  return std::ranges::find(plan.for_claims, gpu, &plan::PlannedDevice::uuid) != plan.for_claims.end();
}

// Those that no GPU reports: of the node as a whole, of devices that only an older plan has, of the MIG manager, and of
// parts that claims hold in a plan that assigns the GPU to the device plugin.
std::map<std::string, gpu::Unhealthy> other_faults(const Inputs& in, const plan::Plan& plan) {
  std::map<std::string, gpu::Unhealthy> faults;
  if (in.inventory)
    for (auto& [uuid, why] : plan::stale_devices(plan, *in.inventory, in.config.config.flags.mig_strategy))
      faults.emplace(uuid, gpu::Unhealthy{gpu::Cause::kLost, std::move(why)});
  if (in.inventory && !in.node_block.empty())
    for (const auto& resource : plan.resources)
      for (const auto& device : resource.devices)
        faults.try_emplace(device.uuid, gpu::Unhealthy{gpu::Cause::kNode, in.node_block});
  for (const auto& [device, why] : in.withdrawn) faults.emplace(device, gpu::Unhealthy{gpu::Cause::kMig, why});
  if (!in.claims) return faults;
  for (const auto& [uid, claim] : in.claims->prepared)
    for (const auto& part : claim.parts)
      if (part.kind != dra::Kind::kMonitor && part.is_made() && !is_for_claims(plan, part.gpu_uuid))
        faults.emplace(part.gpu_uuid,
                       gpu::Unhealthy{gpu::Cause::kClaims, "the claim " + dra::to_string(claim.name) +
                                                               " holds a part of this GPU until its pods end"});
  return faults;
}

void decide_offer(const Inputs& in, const Records& records, Decided& out, MonoTime now) {
  Decision& decision = out.decision;
  // By the latest reports of the driver, kubelet and `tranche mps`: devices in use are never taken away.
  const auto step_change = [&] {
    if (in.inventory) records.change.step(in, decision, out.change);
  };
  step_change();
  if (in.fresh.holdings) {  // named by the plan so far: a newer one must not decide which grants belong to MPS
    name_grants(in, records, decision, now);
    step_change();
  }
  out.ask_driver = records.health.wants_look(now);
  decision.faults =
      records.health.judge(decision.plan, known_inventory(in), in.driver_problem, other_faults(in, decision.plan),
                           mps::pool_faults(decision.plan, in.pools), now);
  decision.health = records.health.report();
  out.wake = records.health.next_change();
  decision.advertised = plan::advertise(decision.plan, decision.faults, decision.withheld);
  out.health = records.health.changes();
  out.events = health_events(out.health);
  for (auto& event : records.pools.update(decision.plan, in.pools)) out.events.push_back(std::move(event));
  name_grants(in, records, decision, now);
}

std::map<std::string, gpu::Unhealthy> gpu_faults(const NodeView& node) {
  auto faults = node.decision.faults.devices;
  if (!node.in.inventory || node.in.driver_problem.empty()) return faults;
  for (const auto& gpu : node.in.inventory->gpus)
    faults.try_emplace(gpu.uuid, gpu::Unhealthy{gpu::Cause::kDriver, node.in.driver_problem});
  return faults;
}

void add_pool_faults(const NodeView& node, std::vector<dra::Device>& devices) {
  for (const auto& pool : node.decision.plan.pools) {
    const auto down = node.decision.faults.pools.find(pool.id);
    if (down == node.decision.faults.pools.end()) continue;
    for (dra::Device& device : devices)
      if (device.kind == dra::Kind::kShared && !device.fault &&
          std::ranges::find(pool.devices, device.gpu_uuid) != pool.devices.end())
        device.fault = gpu::Unhealthy{gpu::Cause::kPool, down->second};
  }
}

void count_held_times(const Inputs& in, Decision& decision, MonoTime now) {
  if (decision.held_read == in.holdings_read) return;
  decision.held_read = in.holdings_read;
  keep_held_times(decision.held_times.own(), tenant_rows(decision, {}), decision.plan, now);
}

NodeEvent event_of(const ConditionChange& change) {
  const auto cause = gpu::to_string(change.condition.cause);
  if (change.what != ConditionChange::What::kRecovered)
    return {&kube::kGpuUnhealthy,
            fmt::format("Slots of {} are withdrawn ({}): {}", change.device, cause, change.condition.why)};
  return {&kube::kGpuHealthy, fmt::format("Slots of {} are offered again after {} s ({}: {})", change.device,
                                          std::chrono::duration_cast<std::chrono::seconds>(change.lasted).count(),
                                          cause, change.condition.why)};
}

std::string file_of(const config::ConfigView& view) {
  return view.path.empty() ? std::string("The configuration without a file") : view.path;
}

}  // namespace

std::vector<NodeEvent> health_events(const std::vector<ConditionChange>& changes) {
  std::vector<NodeEvent> events;
  for (const auto& change : changes) {
    const gpu::Cause cause = change.condition.cause;
    if (cause != gpu::Cause::kPool && cause != gpu::Cause::kMig && cause != gpu::Cause::kClaims)
      events.push_back(event_of(change));
  }
  return events;
}

NodeEvent config_event(const config::ConfigView& view) {
  if (!view.last_good) return {&kube::kConfigApplied, fmt::format("{} is in effect", file_of(view))};
  const auto at = std::ranges::find(view.problems, Severity::kError, &Problem::severity);
  // With several configurations, the refused one may differ from the one in effect.
  return {&kube::kConfigRefused,
          fmt::format("{} cannot be used, the last good one stays in effect: {}",
                      view.name.empty() ? file_of(view) : std::string("What is chosen for this node"),
                      at == view.problems.end() ? std::string("it cannot be read") : to_string(*at))};
}

NodeEvent pages_event(const std::string& program, const std::string& problem) {
  return {&kube::kPagesNotServed,
          fmt::format("tranche {} serves no metrics and no readiness page: {}; it tries again", program, problem)};
}

std::vector<NodeEvent> PoolEvents::update(const plan::Plan& plan, const mps::PoolReports& reports) {
  std::vector<NodeEvent> events;
  const auto faults = mps::pool_faults(plan, reports);
  std::erase_if(serves_, [&](const auto& known) { return plan::find_pool(plan, known.first) == nullptr; });
  for (const auto& pool : plan.pools) {
    const auto fault = faults.find(pool.id);
    const bool serves = fault == faults.end();
    if (!serves && !serves_.contains(pool.id)) continue;
    if (std::exchange(serves_.try_emplace(pool.id, true).first->second, serves) != serves)
      events.push_back(serves ? NodeEvent{&kube::kMpsPoolServing, fmt::format("MPS pool {} serves again", pool.id)}
                              : NodeEvent{&kube::kMpsPoolDown, fmt::format("MPS pool {}: {}", pool.id, fault->second)});
  }
  return events;
}

const gpu::Inventory& known_inventory(const Inputs& in) {
  static const gpu::Inventory kNone;
  return in.inventory ? *in.inventory : kNone;
}

dra::Devices dra_devices(const NodeView& node) {
  if (!node.in.inventory) return {};
  auto devices = dra::devices_of(node.in.config.config, *node.in.inventory, gpu_faults(node), node.in.partitionable);
  add_pool_faults(node, devices.list);
  return devices;
}

Decided decide(const Inputs& in, const Records& records, Decision last, MonoTime now) {
  Decided out;
  out.decision = std::move(last);
  Decision& decision = out.decision;
  read_shares(records, decision);  // also of grants that were given since
  if (in.fresh.plan) want_plan(in, records, out);
  if (in.fresh.plan || in.fresh.offer) {
    decide_offer(in, records, out, now);
  } else {
    find_holders(in, records, decision);  // the claims and pods may have changed
  }
  count_held_times(in, decision, now);
  decision.condition = node_condition({in, decision});
  return out;
}

}  // namespace tranche::node
