#include <fmt/format.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "agent/reset/traces.h"
#include "base/text.h"
#include "host/kubelet/pod_resources.h"
#include "host/status/status_socket.h"

namespace tranche::agent {
namespace {

using Json = nlohmann::json;

constexpr Duration kHolderAnswer = std::chrono::seconds(5);

// Processes that came in through doors, by the word of `tranche mps`; none when it does not run.
std::vector<std::string> clients_of_doors(const std::string& mps_root) {
  std::vector<std::string> users;
  const auto answer = host::ask(mps_root + "/mps.sock", "status", kHolderAnswer);
  const Json status = answer ? Json::parse(*answer, nullptr, false) : Json();
  if (!status.is_object() || !status.contains("pools") || !status["pools"].is_array()) return users;
  for (const Json& pool : status["pools"]) {
    if (!pool.is_object() || !pool.contains("doors") || !pool["doors"].is_array()) continue;
    for (const Json& door : pool["doors"]) {
      if (!door.is_object() || !door.contains("clients") || !door["clients"].is_array() || door["clients"].empty())
        continue;
      std::vector<std::string> pids;
      for (const Json& pid : door["clients"])
        if (pid.is_number_integer()) pids.push_back(std::to_string(pid.get<std::int64_t>()));
      users.push_back(fmt::format("processes {} are MPS clients of {}", join(pids, ", "), pool.value("id", "a pool")));
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
  for (auto& each : clients_of_doors(mps_root)) users.push_back(std::move(each));
  return users;
}

}  // namespace tranche::agent
