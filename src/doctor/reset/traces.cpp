// Files, sockets, directories and cgroups of docs/reference/paths.md, of which names that are not ours are never
// touched; and what the node agent wrote into its Node: labels, the annotation that lists them, the condition.
#include "doctor/reset/traces.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "base/json_read.h"
#include "base/json_text.h"
#include "cdi/spec.h"
#include "dra/claim_spec.h"
#include "kube/api_status.h"
#include "kube/client/ask_once.h"
#include "kube/client/find_access.h"
#include "kube/node_condition.h"
#include "kube/url.h"
#include "labels/outputs.h"
#include "mps/daemon/daemon_home.h"
#include "os/files/files.h"
#include "os/files/kept.h"
#include "os/socket/unix_socket.h"

namespace tranche::doctor {
namespace {

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

// Such as a volume of our container: kubelet, which mounted it, removes it.
bool is_mounted(const std::string& path) {
  struct statx own{};
  if (::statx(AT_FDCWD, path.c_str(), AT_SYMLINK_NOFOLLOW, STATX_TYPE, &own) != 0) return false;
  if ((own.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) != 0) return (own.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
  struct stat here{};
  struct stat above{};  // kernels before 5.8 do not say; the device number distinguishes most mounts
  return ::stat(path.c_str(), &here) == 0 && ::stat((path + "/..").c_str(), &above) == 0 && here.st_dev != above.st_dev;
}

// A directory that must be empty by then, or that may stay for one of the reasons.
void add_directory(const std::string& what, const std::string& path, const std::set<int>& may_stay, Traces& traces) {
  traces.push_back({what + " " + path, [path, may_stay]() -> Status {
                      if (::rmdir(path.c_str()) == 0 || errno == ENOENT || may_stay.contains(errno)) return {};
                      return std::unexpected(error_from_errno(errno, "cannot remove", path));
                    }});
}

// A directory that is empty by then. One that others use, or that is mounted from elsewhere, stays.
void add_if_empty(const std::string& path, const std::vector<std::string>& ours, Traces& traces) {
  const auto dir = os::Dir::open(path);
  const auto names = dir ? dir->list() : std::unexpected(dir.error());
  if (!names || is_mounted(path)) return;
  for (const auto& name : *names)
    if (std::ranges::find(ours, name) == ours.end()) return;
  add_directory("the directory", path, {EBUSY, ENOTEMPTY, EEXIST}, traces);
}

bool is_answered(const std::string& socket) {
  return os::connect_to(socket, /*blocking=*/false).has_value();
}

// Sockets in `folder` whose names begin so: what was left by a program that was killed; a live one's is not ours by
// now.
void find_sockets(const std::string& folder, const std::string& prefix, Traces& traces,
                  std::vector<std::string>& problems) {
  for (const auto& name : os::names_in(folder)) {
    if (!name.starts_with(prefix) || !name.ends_with(".sock")) continue;
    if (is_answered(folder + "/" + name)) {
      problems.push_back("a plugin answers on " + folder + "/" + name + "; it is left alone");
    } else {
      add(folder, name, "the socket", traces);
    }
  }
}

// What Dynamic Resource Allocation left: sockets, and the specifications of claims. A specification of ours says so,
// and under which of the driver's names it was written; an unreadable one counts by the configured name.
void find_dra(const ResetOptions& options, Traces& traces, std::vector<std::string>& problems) {
  std::set<std::string> drivers{options.dra_driver};
  const auto dir = os::Dir::open(options.cdi_root);
  for (const auto& name : (dir ? dir->list() : std::unexpected(dir.error())).value_or(std::vector<std::string>{})) {
    if (!dra::is_claim_spec_file(name)) continue;
    const auto read = dra::read_claim_spec(name, dir->read(name).value_or(""));
    const bool marked = read && (read->claim || !read->endpoints.empty());
    if (!marked && !name.starts_with(dra::claim_spec_prefix(options.dra_driver))) continue;
    add(options.cdi_root, name, "the CDI spec", traces);
    if (marked) drivers.insert(read->driver);
  }
  const std::string kubelet = std::filesystem::path(options.plugin_dir).parent_path();
  for (const auto& driver : drivers) {
    const std::string sockets = kubelet + "/plugins/" + driver;
    find_sockets(kubelet + "/plugins_registry", driver + "-", traces, problems);
    find_sockets(sockets, "", traces, problems);
    auto names = os::names_in(sockets);
    std::erase_if(names, [](const auto& name) { return !name.starts_with("dra") || !name.ends_with(".sock"); });
    add_if_empty(sockets, names, traces);
  }
}

// Those of daemons that lived on the host; the kernel lets go of empty ones only.
void find_cgroups(const ResetOptions& options, Traces& traces) {
  if (options.mps.daemon_cgroup == mps::kNoCgroup) return;
  std::vector<std::string> parents{options.mps.daemon_cgroup.empty() ? std::string(mps::kCgroupRoot) + "/tranche"
                                                                     : options.mps.daemon_cgroup};
  if (options.mps.daemon_cgroup.empty())
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

using Json = nlohmann::json;

constexpr int kMostRounds = 5;

Result<std::string> node_object(const kube::Access& access, const std::string& path) {
  TRY(const auto answer, kube::get_once(access, path));
  if (answer.status == kube::http::kOk) return answer.body;
  return fail(Kind::kDenied,
              fmt::format("the API server does not show it: {} ({})", kube::why_not(answer), answer.status), path);
}

Status refused(const kube::KubeAnswer& answer, const std::string& what) {
  return fail(Kind::kDenied,
              fmt::format("the API server refuses to {}: {} ({})", what, kube::why_not(answer), answer.status));
}

// If another client writes to the node in between, the node is read again.
Status remove_labels(const kube::Access& access, const std::string& path) {
  for (int round = 0; round < kMostRounds; ++round) {
    TRY(const auto node, node_object(access, path));
    TRY(const auto change, labels::change_node(node, {}));
    if (!change.patch) return {};
    TRY(const auto answer, kube::write_once(access, &kube::KubeClient::patch, path, *change.patch));
    if (answer.status == kube::http::kOk) return {};
    if (answer.status != kube::http::kConflict) return refused(answer, "take labels off the node");
  }
  return fail(Kind::kConflict, "the node object is changed by another client at each try", path);
}

bool has_condition(const std::string& node) {
  const Json object = json_of(node);
  return std::ranges::any_of(list_at(member_at(object, "status"), "conditions"),
                             [](const Json& each) { return text_at(each, "type") == kube::kReadyCondition; });
}

// A strategic merge patch that deletes one entry of the list by its type.
Status remove_condition(const kube::Access& access, const std::string& path) {
  const Json entry{{"type", kube::kReadyCondition}, {"$patch", "delete"}};
  const Json patch{{"status", {{"conditions", Json::array({entry})}}}};
  TRY(const auto answer, kube::write_once(access, &kube::KubeClient::strategic_patch, path, json_text(patch)));
  return answer.status == kube::http::kOk ? Status{} : refused(answer, "take the condition off the node");
}

}  // namespace

bool is_there(const std::string& path) {
  struct stat status{};
  return ::lstat(path.c_str(), &status) == 0;
}

void find_files(const ResetOptions& options, const std::string& mps_root, Traces& traces,
                std::vector<std::string>& problems) {
  find_sockets(options.plugin_dir, "nvidia-", traces, problems);
  find_dra(options, traces, problems);
  for (const char* cls : cdi::kClasses) add(options.cdi_root, cdi::file_name(cls), "the CDI spec", traces);

  add(options.program_dir, "tranche-drain", "the program", traces);
  add_if_empty(options.program_dir, {"tranche-drain"}, traces);
  if (const std::string home = "/var/lib/tranche"; options.program_dir == home + "/bin")
    add_if_empty(home, {"bin"}, traces);

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
  const auto access = kube::PersonsAccess({options.kubeconfig, ""}, options.mps.environment).get();
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
                      [access = *access, path] { return remove_labels(access, path); }});
  }
  if (has_condition(*node))
    traces.push_back({"the condition " + std::string(kube::kReadyCondition) + " of the node " + options.node_name,
                      [access = *access, name] { return remove_condition(access, kube::node_status_path(name)); }});
}

}  // namespace tranche::doctor
