#include <fmt/format.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "base/json_read.h"
#include "base/json_text.h"
#include "base/text.h"
#include "doctor/reset/traces.h"
#include "kubelet/pod_resources.h"
#include "os/socket/status_socket.h"

namespace tranche::agent {
namespace {

using Json = nlohmann::json;

constexpr Duration kHolderAnswer = std::chrono::seconds(5);

// Processes that connected through endpoints, as reported by `tranche mps`; none when it does not run.
std::vector<std::string> clients_of_endpoints(const std::string& mps_root) {
  std::vector<std::string> users;
  const auto answer = host::ask(mps_root + "/mps.sock", "status", kHolderAnswer);
  const Json status = answer ? json_of(*answer) : Json();
  for (const Json& pool : list_at(status, "pools")) {
    for (const Json& endpoint : list_at(pool, "endpoints")) {
      std::vector<std::string> pids;
      for (const Json& value : list_at(endpoint, "clients"))
        if (const auto pid = number_of(value)) pids.push_back(std::to_string(*pid));
      if (pids.empty()) continue;
      users.push_back(fmt::format("processes {} are MPS clients of pool {}", join(pids, ", "), text_at(pool, "id")));
    }
  }
  return users;
}

}  // namespace

Result<std::vector<std::string>> users_of_gpus(const ResetOptions& options, const std::string& mps_root) {
  std::vector<std::string> users;
  if (is_there(options.pod_resources_socket)) {  // without kubelet there are no pods
    TRY(const auto holdings, host::list_pod_resources(options.pod_resources_socket, kHolderAnswer));
    for (const auto& holding : holdings) {
      if (!holding.resource.starts_with("nvidia.com/")) continue;
      users.push_back(fmt::format("pod {}/{} (container {}) holds {} of {}", holding.pod_namespace, holding.pod,
                                  holding.container, holding.slots.size(), holding.resource));
    }
  }
  for (auto& each : clients_of_endpoints(mps_root)) users.push_back(std::move(each));
  return users;
}

}  // namespace tranche::agent
