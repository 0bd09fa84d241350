#include "node/node_events.h"

#include <fmt/format.h>

#include <algorithm>

namespace tranche::node {
namespace {

NodeEvent event_of(const health::Change& change) {
  const auto cause = health::to_string(change.condition.cause);
  if (change.what != health::Change::What::kRecovered)
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

std::vector<NodeEvent> health_events(const std::vector<health::Change>& changes) {
  std::vector<NodeEvent> events;
  for (const auto& change : changes) {
    const health::Cause cause = change.condition.cause;
    if (cause != health::Cause::kPool && cause != health::Cause::kMig && cause != health::Cause::kClaims)
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
  const auto planned = [&](const std::string& id) {
    return std::ranges::any_of(plan.pools, [&](const plan::PlannedPool& pool) { return pool.id == id; });
  };
  std::erase_if(served_, [&](const std::string& id) { return !planned(id); });
  std::erase_if(down_, [&](const std::string& id) { return !planned(id); });
  for (const auto& pool : plan.pools) {
    const auto fault = faults.find(pool.id);
    if (fault == faults.end()) {
      if (down_.erase(pool.id) > 0)
        events.push_back({&kube::kMpsPoolServing, fmt::format("MPS pool {} serves again", pool.id)});
      served_.insert(pool.id);
    } else if (served_.erase(pool.id) > 0) {
      down_.insert(pool.id);
      events.push_back({&kube::kMpsPoolDown, fmt::format("MPS pool {}: {}", pool.id, fault->second)});
    }
  }
  return events;
}

}  // namespace tranche::node
