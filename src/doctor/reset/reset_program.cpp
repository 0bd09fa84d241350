// Finds everything that is to be removed before it removes the first, so that a dry run lists exactly what a real run
// removes: files, sockets, directories and cgroups of docs/reference/paths.md, of which names that are not ours are
// never touched; and what the node agent wrote into its Node: labels, the annotation that lists them, the condition.
#include "doctor/reset/reset_program.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "base/json_text.h"
#include "base/text.h"
#include "cdi/spec.h"
#include "config/live/config_source.h"
#include "dra/claim_spec.h"
#include "kube/access.h"
#include "kube/client/ask_once.h"
#include "kube/object.h"
#include "kubelet/pod_resources.h"
#include "labels/live/label_writer.h"
#include "mps/daemon/adoption.h"
#include "mps/daemon/compute_modes.h"
#include "mps/daemon/daemon_home.h"
#include "mps/protocol/mps_client.h"
#include "os/files/files.h"
#include "os/socket/status_socket.h"
#include "os/socket/unix_socket.h"

namespace tranche::doctor {
namespace {

using Json = nlohmann::json;

constexpr Duration kAnswer = std::chrono::seconds(5);
constexpr const char* kModes = "compute-mode.json";

// A file, label or setting of Tranche.
struct Trace {
  std::string what;                // "the CDI spec /var/run/cdi/…": follows "removed" in a sentence
  std::function<Status()> remove;  // may be called once
};
using Traces = std::vector<Trace>;

// A link counts, whatever its target.
bool is_there(const std::string& path) {
  struct stat status{};
  return ::lstat(path.c_str(), &status) == 0;
}

bool is_folder(const std::string& path) {
  struct stat status{};
  return ::lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

// A file that a program could not use and renamed is removed too.
void add_put_aside(std::vector<std::string>& names) {
  for (std::size_t i = 0, all = names.size(); i < all; ++i) names.push_back(names[i] + os::kAsideSuffix);
}

// `name` in `folder` with everything below it.
void add(const std::string& folder, const std::string& name, const std::string& kind, Traces& traces) {
  const std::string path = folder + "/" + name;
  if (!is_there(path)) return;
  traces.push_back({kind + " " + path, [folder, name]() -> Status {
                      TRY(const auto dir, os::Dir::open(folder));
                      return dir.remove_tree(name);
                    }});
}

// A directory that must be empty by then, or that may stay for one of the reasons.
void add_directory(const std::string& what, const std::string& path, const std::set<int>& may_stay, Traces& traces) {
  traces.push_back({what + " " + path, [path, may_stay]() -> Status {
                      if (::rmdir(path.c_str()) == 0 || errno == ENOENT || may_stay.contains(errno)) return {};
                      return fail_errno("cannot remove", path);
                    }});
}

// A directory that is empty by then. One that others use stays, and so does one that is mounted from elsewhere, such as
// a volume of our container: kubelet, which mounted it, removes it.
void add_if_empty(const std::string& path, const std::vector<std::string>& ours, Traces& traces) {
  const auto dir = os::Dir::open(path);
  const auto names = dir ? dir->list() : std::unexpected(dir.error());
  if (!names || os::is_mounted(path)) return;
  for (const auto& name : *names)
    if (std::ranges::find(ours, name) == ours.end()) return;
  add_directory("the directory", path, {EBUSY, ENOTEMPTY, EEXIST}, traces);
}

// Sockets in `folder` whose names begin so: what was left by a program that was killed; a live one's is not ours by
// now.
void find_sockets(const std::string& folder, const std::string& prefix, Traces& traces,
                  std::vector<std::string>& problems) {
  for (const auto& name : os::names_in(folder)) {
    if (!name.starts_with(prefix) || !name.ends_with(".sock")) continue;
    if (os::probe_listener(folder + "/" + name).alive) {
      problems.push_back("a plugin answers on " + folder + "/" + name + "; it is left alone");
    } else {
      add(folder, name, "the socket", traces);
    }
  }
}

// What Dynamic Resource Allocation left: sockets, and the specifications of claims. A specification of ours says so,
// and under which of the driver's names it was written; an unreadable one counts by the configured name.
void find_dra(const ResetOptions& options, const std::string& configured, Traces& traces,
              std::vector<std::string>& problems) {
  std::set<std::string> drivers{configured};
  for (const auto& name : os::names_in(options.cdi_root)) {
    if (!dra::is_claim_spec_file(name)) continue;
    const auto read = dra::read_claim_spec(name, os::read_file(options.cdi_root + "/" + name).value_or(""));
    const bool marked = read && (read->claim || !read->endpoints.empty());
    if (!marked && !name.starts_with(dra::claim_spec_prefix(configured))) continue;
    add(options.cdi_root, name, "the CDI spec", traces);
    if (marked) drivers.insert(read->driver);
  }
  const std::string kubelet = std::filesystem::path(options.plugin_dir).parent_path();
  for (const auto& driver : drivers) find_sockets(kubelet + "/plugins_registry", driver + "-", traces, problems);
}

// Those of daemons that lived on the host; the kernel lets go of empty ones only.
void find_cgroups(const ResetOptions& options, Traces& traces) {
  if (options.daemon_cgroup == mps::kNoCgroup) return;
  std::vector<std::string> parents{options.daemon_cgroup.empty() ? std::string(mps::kCgroupRoot) + "/tranche"
                                                                 : options.daemon_cgroup};
  if (options.daemon_cgroup.empty())
    for (const auto& name : os::names_in(mps::kCgroupRoot))
      parents.push_back(std::string(mps::kCgroupRoot) + "/" + name + "/tranche");
  for (const auto& parent : parents) {
    if (!is_folder(parent)) continue;
    std::vector<std::string> folders;
    for (const auto& name : os::names_in(parent))
      if (is_folder(parent + "/" + name)) folders.push_back(parent + "/" + name);
    folders.push_back(parent);
    for (const auto& folder : folders) add_directory("the cgroup", folder, {}, traces);
  }
}

Result<std::string> node_object(const kube::Access& access, const std::string& path) {
  TRY(const auto answer, kube::ask_once(access, &kube::KubeClient::get, path));
  if (answer.status == kube::http::kOk) return answer.body;
  return std::unexpected(kube::refusal(answer, "the API server does not show it", path));
}

// As they were written.
Status remove_labels(const kube::Access& access, const std::string& node) {
  TRY(const auto server, kube::BlockingClient::open(access));
  const auto writer = labels::label_writer(labels::LabelOutput::kNode, {.node_name = node}, server.client.get());
  Status removed;
  writer->write({}, [&](const Result<labels::Written>& written) {
    if (!written) removed = std::unexpected(written.error());
    server.loop->stop();
  });
  server.loop->run();
  return removed;
}

bool has_condition(const std::string& node) {
  const Json object = json_of(node);
  return entry_at(member_at(object, "status"), "conditions", "type", kube::kReadyCondition).is_object();
}

// A strategic merge patch that deletes one entry of the list by its type.
Status remove_condition(const kube::Access& access, const std::string& path) {
  const Json entry{{"type", kube::kReadyCondition}, {"$patch", "delete"}};
  const Json patch{{"status", {{"conditions", Json::array({entry})}}}};
  TRY(const auto answer, kube::ask_once(access, &kube::KubeClient::strategic_patch, path, json_text(patch)));
  if (answer.status == kube::http::kOk) return {};
  return std::unexpected(kube::refusal(answer, "the API server refuses to take the condition off the node"));
}

void find_files(const ResetOptions& options, const std::string& mps_root, const std::string& dra_driver, Traces& traces,
                std::vector<std::string>& problems) {
  find_sockets(options.plugin_dir, "nvidia-", traces, problems);
  find_dra(options, dra_driver, traces, problems);
  for (const char* cls : cdi::kClasses) add(options.cdi_root, cdi::file_name(cls), "the CDI spec", traces);

  std::vector<std::string> in_run{"node.sock",  "containers",  "grants.txt", "stopped.txt", "config-in-force.json",
                                  "claims.txt", "claims.lock", "claims.next"};
  add_put_aside(in_run);
  for (const auto& name : in_run) add(options.run_dir, name, "the node agent's", traces);
  add_if_empty(options.run_dir, in_run, traces);

  // compute-mode.json goes when the modes have been given back, and says which when they could not be.
  std::vector<std::string> in_root{"pools",
                                   "mps.sock",
                                   "mps.lock",
                                   "keeper.sock",
                                   "keeper.log",
                                   "other-holders",
                                   "ending.txt",
                                   mps::kDriverLibraries,
                                   mps::kHostsDriverLibraries};
  add_put_aside(in_root);
  in_root.push_back(std::string("compute-mode.json") + os::kAsideSuffix);
  for (const auto& name : in_root) add(mps_root, name, "of MPS", traces);
  add_if_empty(mps_root + "/shm", {}, traces);
  in_root.insert(in_root.end(), {"shm", "compute-mode.json"});
  add_if_empty(mps_root, in_root, traces);
  find_cgroups(options, traces);
}

void find_on_node_object(const ResetOptions& options, Traces& traces, std::vector<std::string>& problems) {
  if (options.node_name.empty()) return;
  const auto leave = [&](const Error& why) {
    problems.push_back("the labels of the node " + options.node_name + " are left: " + to_string(why));
  };
  const auto access = kube::PersonsAccess(options.kubeconfig, options.environment).get();
  if (!access) return leave(access.error());
  const std::string name = kube::percent_encoded(options.node_name);
  const std::string path = kube::node_path(name);
  const auto node = node_object(*access, path);
  if (!node) return leave(node.error());
  const auto change = labels::change_node(*node, {});
  const auto text = change ? change->patch : std::nullopt;
  if (text) {
    std::string keys;
    const Json patch = json_of(*text);
    for (const auto& [key, value] : map_at(member_at(patch, "metadata"), "labels").items())
      keys += (keys.empty() ? "" : ", ") + key;
    traces.push_back({"the labels of the node " + options.node_name + " that are ours (" + keys + ")",
                      [access = *access, node = options.node_name] { return remove_labels(access, node); }});
  }
  if (has_condition(*node))
    traces.push_back({"the condition " + std::string(kube::kReadyCondition) + " of the node " + options.node_name,
                      [access = *access, name] { return remove_condition(access, kube::node_status_path(name)); }});
}

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

bool gpus_are_unused(const ResetOptions& options, const std::string& mps_root) {
  const auto users = users_of_gpus(options, mps_root);
  if (users && users->empty()) return true;
  std::string what = users ? "GPUs are in use:\n  " + join(*users, "\n  ")
                           : "it cannot be known whether pods hold GPUs: " + to_string(users.error());
  if (options.force) {
    fmt::print(stderr, "tranche reset: {}\n  --force: going on\n", what);
    return true;
  }
  complain(what +
           "\n  end these pods first (kubectl drain), or give --force, which cuts them off. Nothing was changed.");
  return false;
}

// Whether there was anything to end or give back.
bool end_daemons(const ResetOptions& options, const std::string& root, std::vector<std::string>& problems) {
  if (!is_there(root)) return false;
  const bool runs = answers(root + "/mps.sock");
  const bool holds = answers(root + "/keeper.sock");
  const auto left = mps::find_left_pools(root);
  const auto modes = os::read_file(root + "/" + kModes);
  if (!left) problems.push_back("daemons cannot be looked for: " + to_string(left.error()));
  if (!runs && !holds && (!left || left->empty()) && !modes) return false;
  if (options.dry_run) {
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
  if (programs::end_mps(options) != 0)
    problems.push_back("daemons or compute modes are not as they were found; what is wrong stands above");
  if (is_there(root + "/" + kModes))
    problems.push_back(root + "/" + kModes +
                       " still says which compute modes to give back: run this again when the driver answers, or set "
                       "them with nvidia-smi -c and remove it");
  return true;
}

void take_away(const Trace& trace, bool dry_run, std::vector<std::string>& problems) {
  if (dry_run) {
    fmt::print("would remove {}\n", trace.what);
  } else if (const auto removed = trace.remove(); removed) {
    fmt::print("removed {}\n", trace.what);
  } else {
    problems.push_back(trace.what + " is left: " + to_string(removed.error()));
  }
}

}  // namespace

int run_reset(const ResetOptions& options) {
  const auto config = config::load_config(options);
  if (!config.in_force) {
    std::string why;
    for (const auto& problem : config.problems) why += "\n  " + to_string(problem);
    return complain("the configuration cannot be used, so where the MPS directory is stays unknown:" + why +
                    "\n  fix it, or leave out --config-file (and unset CONFIG_FILE) and give --mps-root if it is "
                    "not the usual one. Nothing was changed.");
  }
  const std::string root = programs::mps_root_of(options, config.config.flags);
  if (answers(options.run_dir + "/node.sock"))
    return complain(
        "tranche node runs here and would make everything again; stop it first (in a cluster: remove its DaemonSet, "
        "helm uninstall), then run this once more. Nothing was changed.");
  if (!gpus_are_unused(options, root)) return 1;

  std::vector<std::string> problems;
  const bool daemons = end_daemons(options, root, problems);
  Traces traces;
  find_on_node_object(options, traces, problems);
  find_files(options, root, config.config.dra.driver_name, traces, problems);
  for (const auto& trace : traces) take_away(trace, options.dry_run, problems);
  for (const auto& problem : problems) fmt::print(stderr, "tranche reset: {}\n", problem);
  if (traces.empty() && !daemons) fmt::print("nothing of ours is left on this node\n");
  if (options.dry_run && ::geteuid() != 0)
    fmt::print(stderr,
               "tranche reset: this is user {}, not root: ending daemons, giving compute modes back and removing "
               "root's files need root, and sockets and folders that this user cannot read are not listed\n",
               ::geteuid());
  return problems.empty() ? 0 : 1;
}

}  // namespace tranche::doctor
