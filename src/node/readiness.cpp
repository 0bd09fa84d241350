#include "node/reports.h"

#include <fmt/format.h>
#include <algorithm>

#include "node/node_events.h"

namespace tranche::node {
namespace {

// "" if kubelet has the resource.
std::string not_with_kubelet(const NodeView& node, const std::string& resource) {
  const auto& [in, decision] = node;
  const auto plugin = std::ranges::find(in.plugins, resource, &kubelet::PluginState::resource);
  if (plugin == in.plugins.end()) return resource + " is not served yet";
  if (!plugin->serving) return resource + " is not served: " + plugin->problem;
  if (plugin->registered || in.config.run.kubelet_socket.empty()) return {};
  return resource + " is not registered with kubelet" + (plugin->problem.empty() ? "" : ": " + plugin->problem);
}

}  // namespace

kube::NodeCondition readiness(const NodeView& node) {
  const auto& [in, decision] = node;
  if (!in.inventory) {
    if (in.config.config.flags.fail_on_init_error)
      return {false, "NoDriver", "waiting for the driver: " + in.driver_problem};
    return {true, "", "idle without a driver, which failOnInitError: false allows: " + in.driver_problem};
  }
  if (!in.driver_problem.empty())
    return {false, "NoDriver", "the driver does not answer any more: " + in.driver_problem};
  const auto error = std::ranges::find(decision.plan_problems, Severity::kError, &Problem::severity);
  if (error != decision.plan_problems.end()) return {false, "ConfigRefused", to_string(*error)};
  for (const auto& list : decision.advertised) {
    if (std::string reason = not_with_kubelet(node, list.resource); !reason.empty())
      return {false, "NotRegistered", std::move(reason)};
  }
  const bool given_up = in.claims && in.claims->standing == ClaimsStanding::kGivenUp;  // its pods are a newer agent's
  if (in.claims && !given_up && !in.claims->server.registered)
    return {false, "NotRegistered",
            fmt::format("the driver {} is not registered with kubelet{}{}", in.claims->driver,
                        in.claims->server.problem.empty() ? "" : ": ", in.claims->server.problem)};
  const bool any_healthy = std::ranges::any_of(decision.advertised, [](const advertise::Advertised& list) {
    return list.slots.empty() || std::ranges::any_of(list.slots, &advertise::AdvertisedSlot::healthy);
  });
  if (!decision.advertised.empty() && !any_healthy && !decision.plan.pools.empty() && !in.pools.connected)
    return {false, "PoolDown", "no slot is healthy: tranche mps does not answer: " + in.pools.problem};
  if (in.claims && decision.advertised.empty())
    return {true, "", "claims of the driver " + in.claims->driver + " are served"};
  if (decision.advertised.empty()) return {true, "", "there is no device to advertise"};
  return {true, "",
          fmt::format("{} {} served", decision.advertised.size(),
                      decision.advertised.size() == 1 ? "resource is" : "resources are")};
}

kube::NodeCondition node_condition(const NodeView& node) {
  const auto& [in, decision] = node;
  auto ready = readiness(node);
  if (!ready.ready) return ready;
  if (in.config.last_good) return {true, "ConfigRefused", config_event(in.config).message};
  if (!decision.faults.pools.empty()) {
    const auto& [id, why] = *decision.faults.pools.begin();
    return {decision.faults.pools.size() < decision.plan.pools.size(), "PoolDown", "MPS pool " + id + ": " + why};
  }
  if (const auto step = std::ranges::find_if(decision.change, &change::Step::waits); step != decision.change.end())
    return {true, "Waiting", "a change of the configuration waits: " + change::to_string(*step)};
  ready.reason = in.inventory ? "Serving" : "NoDriver";
  return ready;
}

}  // namespace tranche::node
