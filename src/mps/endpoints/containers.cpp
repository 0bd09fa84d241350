#include "mps/endpoints/containers.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/nsfs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>

#include "grants/allocate/grant.h"
#include "guard/attribution.h"
#include "guard/cgroup.h"
#include "os/files/files.h"

namespace tranche::agent {
namespace {

constexpr int kDeepestNamespaces = 32;  // pid_namespaces(7)

// "mnt:[4026531840]"; "" if the process has exited or cannot be inspected.
std::string namespace_of(const std::string& process, const char* kind) {
  char link[64];
  const auto length = ::readlink(fmt::format("/proc/{}/ns/{}", process, kind).c_str(), link, sizeof link);
  return length <= 0 ? std::string() : std::string(link, static_cast<std::size_t>(length));
}

std::string namespace_of(int pid, const char* kind) {
  return namespace_of(std::to_string(pid), kind);
}

std::optional<guard::Container> by_cgroup(int pid) {
  const auto text = host::read_file(fmt::format("/proc/{}/cgroup", pid));
  return text ? guard::container_of_cgroup(*text) : std::nullopt;
}

// "" if it is ours, or if it cannot be determined.
std::string outermost_pid_namespace(int pid) {
  const std::string ours = namespace_of("self", "pid");
  if (namespace_of(pid, "pid") == ours) return {};
  host::Fd fd(::open(fmt::format("/proc/{}/ns/pid", pid).c_str(), O_RDONLY | O_CLOEXEC));
  for (int depth = 0; fd && depth < kDeepestNamespaces; ++depth) {
    struct stat facts{};
    if (::fstat(fd.get(), &facts) != 0) break;
    host::Fd parent(::ioctl(fd.get(), NS_GET_PARENT));
    struct stat above{};
    if (!parent || ::fstat(parent.get(), &above) != 0) break;
    if (fmt::format("pid:[{}]", above.st_ino) == ours) return fmt::format("pid:[{}]", facts.st_ino);
    fd = std::move(parent);
  }
  return {};
}

bool is_of_the_node(const std::string& mounts) {
  return mounts == namespace_of("self", "mnt") || mounts == namespace_of("1", "mnt");
}

}  // namespace

bool is_of_the_node(int pid) {
  const auto mounts = pid > 0 ? namespace_of(pid, "mnt") : std::string();
  return !mounts.empty() && is_of_the_node(mounts);
}

std::string pod_of(int pid) {
  const auto container = by_cgroup(pid);
  return container ? container->pod_uid : std::string();
}

std::string container_of(int pid) {
  host::Ancestors ancestors;
  return container_of(pid, ancestors).value_or(std::string());
}

std::optional<std::string> container_of(int pid, host::Ancestors& ancestors) {
  if (pid <= 0) return std::string();
  if (const auto container = by_cgroup(pid)) return fmt::format("pod {} {}", container->pod_uid, container->id);
  if (auto pids = outermost_pid_namespace(pid); !pids.empty()) return pids;
  const auto above = ancestors.of(pid);
  if (!above) return std::nullopt;
  auto mounts = namespace_of(above->empty() ? pid : above->back(), "mnt");
  return is_of_the_node(mounts) ? std::string() : mounts;
}

std::optional<host::ProcessRef> oldest_of(const std::string& container, int member) {
  std::optional<host::ProcessRef> oldest;
  const std::unique_ptr<DIR, int (*)(DIR*)> all(::opendir("/proc"), ::closedir);
  if (!all || container.empty()) return oldest;
  // The first process is in the container's own pid namespace, never in a nested one: this cheap check skips most
  // others.
  const auto own = outermost_pid_namespace(member);
  const auto pids = own.empty() ? namespace_of("self", "pid") : own;
  // The limit is never reached: each process is inspected once.
  host::Ancestors ancestors("/proc", std::numeric_limits<std::size_t>::max());
  while (const dirent* entry = ::readdir(all.get())) {
    int pid = 0;
    const char* end = entry->d_name + std::strlen(entry->d_name);
    if (std::from_chars(entry->d_name, end, pid).ptr != end || namespace_of(pid, "pid") != pids) continue;
    if (own.empty() && is_of_the_node(pid)) continue;
    if (container_of(pid, ancestors) != container) continue;
    const auto ref = host::process_ref(pid);
    if (!ref) continue;
    if (!oldest || ref->start_ticks < oldest->start_ticks ||
        (ref->start_ticks == oldest->start_ticks && ref->pid < oldest->pid)) {
      oldest = *ref;
    }
  }
  return oldest;
}

std::optional<std::string> grant_by_mounts(int pid, const std::string& mps_root, const std::string& pool) {
  const auto ours = host::read_file("/proc/self/mountinfo");
  const auto mounts = host::read_file(fmt::format("/proc/{}/mountinfo", pid));
  const std::unique_ptr<char, decltype(&std::free)> root(::realpath(mps_root.c_str(), nullptr), &std::free);
  if (!ours || !mounts || !root) return std::nullopt;
  const auto endpoints = guard::where_endpoints_are(*ours, root.get());
  if (!endpoints) return std::nullopt;
  auto endpoint = guard::endpoint_of_mountinfo(*mounts, allocate::kEndpointInContainer, *endpoints);
  if (!endpoint || endpoint->pool != pool) return std::nullopt;
  return std::move(endpoint->grant);
}

}  // namespace tranche::agent
