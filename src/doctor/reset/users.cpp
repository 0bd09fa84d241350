#include <fmt/ranges.h>
#include <sys/stat.h>

#include "doctor/reset/traces.h"
#include "kubelet/pod_resources.h"
#include "mps/protocol/mps_client.h"

namespace tranche::agent {
namespace {

constexpr Duration kHolderAnswer = std::chrono::seconds(5);

// Processes that connected through endpoints, as reported by `tranche mps`; none when it does not run.
std::vector<std::string> clients_of_endpoints(const std::string& mps_root) {
  std::vector<std::string> users;
  const auto answer = host::ask(mps_socket(mps_root), "status", kHolderAnswer);
  const auto reports = parse_pool_reports(answer.value_or(""));
  if (!reports) return users;
  for (const auto& [id, pool] : reports->pools)
    for (const auto& endpoint : pool.endpoints)
      if (!endpoint.clients.empty())
        users.push_back(fmt::format("processes {} are MPS clients of pool {}", fmt::join(endpoint.clients, ", "), id));
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
