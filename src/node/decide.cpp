#include "node/decide.h"

#include <algorithm>
#include <map>
#include <string>

#include "gpu/health/cause.h"
#include "node/observe/tenant_metrics.h"
#include "node/reports.h"
#include "plan/make_plan.h"

namespace tranche::node {
namespace {

// Faults that the health of a GPU does not show: of the node as a whole, and of devices that only an older plan has.
std::map<std::string, gpu::Unhealthy> node_faults(const NodeView& node) {
  std::map<std::string, gpu::Unhealthy> faults;
  const auto& [in, decision] = node;
  if (!in.inventory) return faults;
  for (auto& [uuid, why] : plan::stale_devices(decision.plan, *in.inventory, in.config.config.flags.mig_strategy))
    faults.emplace(uuid, gpu::Unhealthy{gpu::Cause::kLost, std::move(why)});
  if (in.node_block.empty()) return faults;
  for (const auto& resource : decision.plan.resources)
    for (const auto& device : resource.devices)
      faults.try_emplace(device.uuid, gpu::Unhealthy{gpu::Cause::kNode, in.node_block});
  return faults;
}

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

// Those that no GPU reports.
std::map<std::string, gpu::Unhealthy> other_faults(const Inputs& in, const Decision& decision) {
  auto faults = node_faults({in, decision});
  for (const auto& [device, why] : in.withdrawn) faults.emplace(device, gpu::Unhealthy{gpu::Cause::kMig, why});
  if (!in.claims) return faults;
  for (const auto& [uid, claim] : in.claims->prepared)  // in a plan that assigns the GPU to the device plugin
    for (const auto& part : claim.parts)
      if (part.kind != dra::Kind::kMonitor && part.is_made() && !is_for_claims(decision.plan, part.gpu_uuid))
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
  decision.faults = records.health.judge(decision.plan, known_inventory(in), in.driver_problem,
                                         other_faults(in, decision), mps::pool_faults(decision.plan, in.pools), now);
  decision.health = records.health.report();
  out.wake = records.health.next_change();
  decision.advertised = plan::advertise(decision.plan, decision.faults, decision.withheld);
  out.health = records.health.changes();
  out.events = health_events(out.health);
  for (auto& event : records.pools.update(decision.plan, in.pools)) out.events.push_back(std::move(event));
  name_grants(in, records, decision, now);
}

void count_held_times(const Inputs& in, Decision& decision, MonoTime now) {
  if (decision.held_read == in.holdings_read) return;
  decision.held_read = in.holdings_read;
  keep_held_times(decision.held_times.own(), tenant_rows(decision, {}), decision.plan, now);
}

}  // namespace

const gpu::Inventory& known_inventory(const Inputs& in) {
  static const gpu::Inventory kNone;
  return in.inventory ? *in.inventory : kNone;
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
