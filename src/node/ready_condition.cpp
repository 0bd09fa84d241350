#include "node/ready_condition.h"

#include <algorithm>

#include "node/node_events.h"
#include "node/readiness.h"

namespace tranche::agent {

kube::NodeCondition node_condition(const NodeView& node) {
  const auto& [in, decision] = node;
  const Readiness ready = readiness(node);
  if (!ready.ready) return {false, ready.why, ready.reason};
  if (in.config.last_good) return {true, "ConfigRefused", config_event(in.config).message};
  if (!decision.faults.pools.empty()) {
    const auto& [id, why] = *decision.faults.pools.begin();
    return {decision.faults.pools.size() < decision.plan.pools.size(), "PoolDown", "MPS pool " + id + ": " + why};
  }
  const auto waits = [](const change::Step& step) { return !step.waits_for.empty(); };
  if (const auto step = std::ranges::find_if(decision.change, waits); step != decision.change.end())
    return {true, "Waiting", "a change of the configuration waits: " + change::to_string(*step)};
  return {true, in.inventory ? "Serving" : "NoDriver", ready.reason};
}

}  // namespace tranche::agent
