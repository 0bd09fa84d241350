#include "programs/node/readiness.h"

#include <fmt/format.h>

#include <algorithm>

namespace tranche::agent {
namespace {

Readiness no(std::string reason) {
  return {false, std::move(reason)};
}

// "" if kubelet has the resource.
std::string not_with_kubelet(const Snapshot& s, const std::string& resource) {
  const auto plugin = std::ranges::find(s.plugins, resource, &host::PluginState::resource);
  if (plugin == s.plugins.end()) return resource + " is not served yet";
  if (!plugin->serving) return resource + " is not served: " + plugin->problem;
  if (plugin->registered || s.config.run.kubelet_socket.empty()) return {};
  return resource + " is not registered with kubelet" + (plugin->problem.empty() ? "" : ": " + plugin->problem);
}

}  // namespace

Readiness readiness(const Snapshot& s) {
  if (!s.inventory) {
    if (s.config.config.flags.fail_on_init_error) return no("the driver is waited for: " + s.driver_problem);
    return {true, "idle without a driver, which failOnInitError: false allows: " + s.driver_problem};
  }
  if (!s.driver_problem.empty()) return no("the driver does not answer any more: " + s.driver_problem);
  const auto error = std::ranges::find(s.plan_problems, Severity::kError, &Problem::severity);
  if (error != s.plan_problems.end()) return no(to_string(*error));
  for (const auto& list : s.advertised) {
    if (std::string reason = not_with_kubelet(s, list.resource); !reason.empty()) return no(std::move(reason));
  }
  if (s.claims && !s.claims->server.registered)
    return no(fmt::format("the driver {} is not registered with kubelet{}{}", s.claims->driver,
                          s.claims->server.problem.empty() ? "" : ": ", s.claims->server.problem));
  if (s.claims && s.advertised.empty()) return {true, "claims of the driver " + s.claims->driver + " are served"};
  if (s.advertised.empty()) return {true, "there is no device to advertise"};
  return {true,
          fmt::format("{} {} served", s.advertised.size(), s.advertised.size() == 1 ? "resource is" : "resources are")};
}

}  // namespace tranche::agent
