#include "mps/endpoints/containers.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/nsfs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "containers/attribution.h"
#include "grants/allocate/grant.h"
#include "os/files/files.h"
#include "os/process/process.h"
#include "os/process/threads.h"

namespace tranche::mps {
namespace {

constexpr std::string_view kPodsContainer = "pod ";
constexpr int kDeepestNamespaces = 32;  // pid_namespaces(7)

// "mnt:[4026531840]"; "" if the process has exited or cannot be inspected.
std::string namespace_at(const std::string& folder, const char* kind) {
  return os::read_link(fmt::format("{}/ns/{}", folder, kind)).value_or("");
}

std::string namespace_of(int pid, const char* kind) {
  std::string found;
  os::look_at_living_thread(pid, [&found, kind](const std::string& folder, pid_t) {
    found = namespace_at(folder, kind);
    return !found.empty();
  });
  return found;
}

struct ByCgroup {
  std::optional<containers::Container> container;
  bool known = false;  // false: the process has exited, or its threads end before they can be read
};

ByCgroup by_cgroup(int pid) {
  ByCgroup found;
  found.known = os::look_at_living_thread(pid, [&found](const std::string& folder, pid_t) {
    if (const auto text = os::read_file(folder + "/cgroup")) found.container = containers::container_of_cgroup(*text);
    return found.container.has_value();
  });
  return found;
}

// From its own to the outermost below ours. Empty if its own is ours, or if they cannot be determined.
std::vector<std::string> pid_namespaces(int pid) {
  const std::string ours = namespace_at("/proc/self", "pid");
  if (namespace_of(pid, "pid") == ours) return {};
  std::vector<std::string> all;
  os::Fd fd(::open(fmt::format("/proc/{}/ns/pid", pid).c_str(), O_RDONLY | O_CLOEXEC));
  for (int depth = 0; fd && depth < kDeepestNamespaces; ++depth) {
    struct stat status{};
    if (::fstat(fd.get(), &status) != 0) break;
    all.push_back(fmt::format("pid:[{}]", status.st_ino));
    os::Fd parent(::ioctl(fd.get(), NS_GET_PARENT));
    struct stat above{};
    if (!parent || ::fstat(parent.get(), &above) != 0) break;
    if (fmt::format("pid:[{}]", above.st_ino) == ours) return all;
    fd = std::move(parent);
  }
  return {};
}

bool are_of_the_node(const std::string& mounts) {
  return mounts == namespace_at("/proc/self", "mnt") || mounts == namespace_at("/proc/1", "mnt");
}

constexpr std::size_t kDeepest = 64;

// Whether a control group equals another or is below it, in every hierarchy; both in the format of /proc/<pid>/cgroup.
bool is_below_group(std::string_view cgroup, std::string_view other) {
  const auto lines = lines_of(cgroup), others = lines_of(other);
  return lines.size() == others.size() && std::ranges::equal(lines, others, [](auto line, auto above) {
           return line.starts_with(above) &&
                  (line.size() == above.size() || line[above.size()] == '/' || above.ends_with('/'));
         });
}

}  // namespace

bool is_of_the_node(int pid) {
  const auto mounts = pid > 0 ? namespace_of(pid, "mnt") : std::string();
  return !mounts.empty() && are_of_the_node(mounts);
}

bool is_below(int pid, int first) {
  const auto own = namespace_of(first, "pid");
  const auto all = pid_namespaces(pid);
  return !own.empty() && std::ranges::find(all, own) != all.end();
}

std::string pod_in_name(const std::string& container) {
  if (!container.starts_with(kPodsContainer)) return {};
  return container.substr(kPodsContainer.size(), container.find(' ', kPodsContainer.size()) - kPodsContainer.size());
}

std::string unknown_in_pod(const std::string& uid) {
  return uid.empty() ? std::string() : fmt::format("{}{} ", kPodsContainer, uid);
}

std::optional<std::string> pod_of(int pid) {
  if (pid <= 0) return std::string();
  const auto found = by_cgroup(pid);
  if (!found.known) return std::nullopt;
  return found.container ? found.container->pod_uid : std::string();
}

std::string container_of(int pid) {
  Ancestors ancestors;
  return container_of(pid, ancestors).value_or(std::string());
}

std::optional<std::string> container_of(int pid, Ancestors& ancestors) {
  if (pid <= 0) return std::string();
  const auto found = by_cgroup(pid);
  if (!found.known) return std::nullopt;
  if (found.container) return unknown_in_pod(found.container->pod_uid) + found.container->id;
  if (const auto pids = pid_namespaces(pid); !pids.empty()) return pids.back();
  const auto above = ancestors.of(pid);
  if (!above) return std::nullopt;
  auto mounts = namespace_of(above->empty() ? pid : above->back(), "mnt");
  return are_of_the_node(mounts) ? std::string() : mounts;
}

std::optional<std::string> grant_by_mounts(int pid, const std::string& mps_root, const std::string& pool) {
  std::optional<os::DirectoryId> seen;
  os::look_at_living_thread(pid, [&seen](const std::string& folder, pid_t) {
    if (const auto directory = os::directory_seen_by(folder, grants::kEndpointInContainer)) seen = *directory;
    return seen.has_value();
  });
  const auto endpoints = os::Dir::open(grants::Paths{mps_root}.endpoints(pool));
  if (!seen || !endpoints) return std::nullopt;
  auto grant = os::name_of_directory(*endpoints, *seen);
  return grant && containers::is_grant(*grant) ? std::move(grant) : std::nullopt;
}

Ancestors::Ancestors(std::string proc, std::size_t most_looks, Duration most_time)
    : proc_(std::move(proc)),
      left_(most_looks),
      time_(most_time),
      ours_(namespace_at(proc_ + "/self", "mnt")),
      nodes_(namespace_at(proc_ + "/1", "mnt")) {}

const Ancestors::Look* Ancestors::look(pid_t pid) {
  if (const auto known = looks_.find(pid); known != looks_.end()) return &known->second;
  if (left_ == 0 || time_.spent()) return nullptr;
  --left_;
  const auto status = os::read_file(fmt::format("{}/{}/status", proc_, pid)).value_or("");
  Look look{.namespaced = os::parse_namespaced_pids(status)};
  for (const auto line : lines_of(status))
    if (line.starts_with("PPid:")) look.parent = os::parse_pid(trimmed(line.substr(line.find(':') + 1))).value_or(0);
  const auto read = [&look](const std::string& folder, pid_t) {
    look.mounts = namespace_at(folder, "mnt");
    if (auto cgroup = os::read_file(folder + "/cgroup")) look.cgroup = *std::move(cgroup);
    return false;
  };
  os::look_at_living_thread(pid, read, proc_);
  return &looks_.emplace(pid, std::move(look)).first->second;
}

std::optional<std::vector<pid_t>> Ancestors::of(pid_t client) {
  std::vector<pid_t> above;
  const Look* const own = look(client);
  if (own == nullptr) return std::nullopt;
  for (const Look* here = own;
       !here->namespaced.empty() && own->cgroup && above.size() < kDeepest && here->parent > 1;) {
    const pid_t parent = here->parent;
    if (here->is_init()) break;  // the parent of PID 1 of a namespace is outside of it
    const Look* const its = look(parent);
    if (its == nullptr) return std::nullopt;
    if (its->namespaced.empty() || !its->cgroup) break;
    // A container has neither the node's mounts nor this process's.
    if (!its->mounts.empty() && (its->mounts == ours_ || its->mounts == nodes_)) break;
    // A shim; or the pause process of a pod whose containers share their pid namespace.
    const bool own_namespace = its->namespaced.size() >= 2;
    if (!is_below_group(*own->cgroup, *its->cgroup) && (!own_namespace || its->is_init())) break;
    above.push_back(parent);
    here = its;
  }
  return above;
}

}  // namespace tranche::mps
