#include "doctor/reset/reset_program.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include "base/text.h"
#include "config/live/config_source.h"
#include "doctor/reset/traces.h"
#include "kubelet/pod_resources.h"
#include "mps/daemon/adoption.h"
#include "mps/daemon/compute_modes.h"
#include "mps/protocol/mps_client.h"
#include "os/files/files.h"
#include "os/socket/status_socket.h"

namespace tranche::doctor {
namespace {

constexpr Duration kAnswer = std::chrono::seconds(5);
constexpr const char* kModes = "compute-mode.json";

bool answers(const std::string& socket) {
  return os::ask(socket, "status", kAnswer).has_value();
}

// Processes that connected through endpoints, as reported by `tranche mps`; none when it does not run.
std::vector<std::string> clients_of_endpoints(const std::string& mps_root) {
  std::vector<std::string> users;
  const auto answer = os::ask(mps::mps_socket(mps_root), "status", kAnswer);
  const auto reports = mps::parse_pool_reports(answer.value_or(""));
  if (!reports) return users;
  for (const auto& [id, pool] : reports->pools)
    for (const auto& endpoint : pool.endpoints)
      if (!endpoint.clients.empty())
        users.push_back(fmt::format("processes {} are MPS clients of pool {}", fmt::join(endpoint.clients, ", "), id));
  return users;
}

// Who uses what would be taken away, one sentence each; an Error: that cannot be known.
Result<std::vector<std::string>> users_of_gpus(const ResetOptions& options, const std::string& mps_root) {
  std::vector<std::string> users;
  if (is_there(options.pod_resources_socket)) {  // without kubelet there are no pods
    TRY(const auto holdings, kubelet::list_pod_resources(options.pod_resources_socket, kAnswer));
    for (const auto& holding : holdings) {
      if (!holding.resource.starts_with("nvidia.com/")) continue;
      users.push_back(fmt::format("pod {}/{} (container {}) holds {} of {}", holding.pod_namespace, holding.pod,
                                  holding.container, holding.slots.size(), holding.resource));
    }
  }
  for (auto& each : clients_of_endpoints(mps_root)) users.push_back(std::move(each));
  return users;
}

int complain(const std::string& what) {
  fmt::print(stderr, "tranche reset: {}\n", what);
  return 1;
}

class Reset {
 public:
  Reset(const ResetOptions& options, std::string mps_root) : options_(options), root_(std::move(mps_root)) {}

  int run() {
    if (answers(options_.run_dir + "/node.sock"))
      return complain(
          "tranche node runs here and would make everything again; stop it first (in a cluster: remove its DaemonSet, "
          "helm uninstall), then run this once more. Nothing was changed.");
    if (!gpus_are_unused()) return 1;

    std::vector<std::string> problems;
    const bool daemons = end_daemons(problems);
    Traces traces;
    find_on_node_object(options_, traces, problems);
    find_files(options_, root_, traces, problems);
    for (const auto& trace : traces) take_away(trace, problems);
    for (const auto& problem : problems) fmt::print(stderr, "tranche reset: {}\n", problem);
    if (traces.empty() && !daemons) fmt::print("nothing of ours is left on this node\n");
    if (options_.dry_run && ::geteuid() != 0)
      fmt::print(stderr,
                 "tranche reset: this is user {}, not root: ending daemons, giving compute modes back and removing "
                 "root's files need root, and sockets and folders that this user cannot read are not listed\n",
                 ::geteuid());
    return problems.empty() ? 0 : 1;
  }

 private:
  bool gpus_are_unused() const {
    const auto users = users_of_gpus(options_, root_);
    if (users && users->empty()) return true;
    std::string what = users ? "GPUs are in use:\n  " + join(*users, "\n  ")
                             : "it cannot be known whether pods hold GPUs: " + to_string(users.error());
    if (options_.force) {
      fmt::print(stderr, "tranche reset: {}\n  --force: going on\n", what);
      return true;
    }
    complain(what +
             "\n  end these pods first (kubectl drain), or give --force, which cuts them off. Nothing was changed.");
    return false;
  }

  // Whether there was anything to end or give back.
  bool end_daemons(std::vector<std::string>& problems) {
    if (!is_there(root_)) return false;
    const bool runs = answers(root_ + "/mps.sock");
    const bool holds = answers(root_ + "/keeper.sock");
    const auto left = mps::find_left_pools(root_);
    const auto modes = os::read_file(root_ + "/" + kModes);
    if (!left) problems.push_back("daemons cannot be looked for: " + to_string(left.error()));
    if (!runs && !holds && (!left || left->empty()) && !modes) return false;
    if (options_.dry_run) {
      if (runs) fmt::print("would end tranche mps with its daemons\n");
      if (holds) fmt::print("would end the keeper\n");
      if (left)
        for (const auto& pool : *left) fmt::print("would end the daemon of {} (pid {})\n", pool.id, pool.pid);
      const auto earlier = modes ? mps::parse_earlier_modes(*modes) : mps::EarlierModes{};
      if (earlier)
        for (const auto& [uuid, mode] : *earlier)
          fmt::print("would give {} its compute mode {} back\n", uuid, gpu::to_string(mode));
      return true;
    }
    if (programs::end_mps(options_.mps) != 0)
      problems.push_back("daemons or compute modes are not as they were found; what is wrong stands above");
    if (is_there(root_ + "/" + kModes))
      problems.push_back(root_ + "/" + kModes +
                         " still says which compute modes to give back: run this again when the driver answers, or set "
                         "them with nvidia-smi -c and remove it");
    return true;
  }

  void take_away(const Trace& trace, std::vector<std::string>& problems) const {
    if (options_.dry_run) {
      fmt::print("would remove {}\n", trace.what);
    } else if (const auto removed = trace.remove(); removed) {
      fmt::print("removed {}\n", trace.what);
    } else {
      problems.push_back(trace.what + " is left: " + to_string(removed.error()));
    }
  }

  const ResetOptions& options_;
  std::string root_;
};

}  // namespace

int run_reset(const ResetOptions& options) {
  const auto config = config::load_config(options.mps.flags, options.mps.environment, options.mps.unknown_keys);
  if (!config.in_force) {
    std::string why;
    for (const auto& problem : config.problems) why += "\n  " + to_string(problem);
    return complain("the configuration cannot be used, so where the MPS directory is stays unknown:" + why +
                    "\n  fix it, or leave out --config-file (and unset CONFIG_FILE) and give --mps-root if it is "
                    "not the usual one. Nothing was changed.");
  }
  ResetOptions with_driver = options;
  with_driver.dra_driver = config.config.dra.driver_name;
  return Reset(with_driver, programs::mps_root_of(options.mps, config.config.flags)).run();
}

}  // namespace tranche::doctor
