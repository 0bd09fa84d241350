#include "node/node_events.h"

#include <fmt/format.h>

#include <algorithm>

namespace tranche::node {
namespace {

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
    const auto known = serves_.find(pool.id);
    if (known == serves_.end()) {
      if (serves) serves_.emplace(pool.id, true);
    } else if (std::exchange(known->second, serves) != serves) {
      events.push_back(serves ? NodeEvent{&kube::kMpsPoolServing, fmt::format("MPS pool {} serves again", pool.id)}
                              : NodeEvent{&kube::kMpsPoolDown, fmt::format("MPS pool {}: {}", pool.id, fault->second)});
    }
  }
  return events;
}

}  // namespace tranche::node
