#include "programs/node/node_condition.h"

#include <algorithm>

#include "programs/node/node_news.h"
#include "programs/node/readiness.h"

namespace tranche::agent {
namespace {

const char* why_not_ready(const Snapshot& s) {
  if (!s.inventory || !s.driver_problem.empty()) return "NoDriver";
  if (std::ranges::any_of(s.plan_problems, [](const Problem& p) { return p.severity == Severity::kError; }))
    return "ConfigRefused";
  return "NotRegistered";
}

}  // namespace

kube::NodeCondition node_condition(const Snapshot& s) {
  const Readiness ready = readiness(s);
  if (!ready.ready) return {false, why_not_ready(s), ready.reason};
  if (s.config.last_good) return {true, "ConfigRefused", news_of_config(s.config).message};
  if (!s.faults.pools.empty()) {
    const auto& [id, why] = *s.faults.pools.begin();
    return {s.faults.pools.size() < s.plan.pools.size(), "PoolDown", "MPS pool " + id + ": " + why};
  }
  const auto waits = [](const change::Step& step) { return !step.waits_for.empty(); };
  if (const auto step = std::ranges::find_if(s.change, waits); step != s.change.end())
    return {true, "Waiting", "a change of the configuration waits: " + change::to_string(*step)};
  return {true, s.inventory ? "Serving" : "NoDriver", ready.reason};
}

}  // namespace tranche::agent
