#include "agent/mps/containers.h"

#include <dirent.h>
#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "allocate/grant.h"
#include "guard/attribution.h"
#include "host/files/files.h"

namespace tranche::agent {

std::string container_of(int pid) {
  if (pid <= 0) return {};
  char link[64];
  const auto length = ::readlink(fmt::format("/proc/{}/ns/mnt", pid).c_str(), link, sizeof link);
  return length <= 0 ? std::string() : std::string(link, static_cast<std::size_t>(length));
}

std::optional<host::ProcessRef> oldest_of(const std::string& container) {
  std::optional<host::ProcessRef> oldest;
  const std::unique_ptr<DIR, int (*)(DIR*)> all(::opendir("/proc"), ::closedir);
  if (!all || container.empty()) return oldest;
  while (const dirent* entry = ::readdir(all.get())) {
    int pid = 0;
    const char* end = entry->d_name + std::strlen(entry->d_name);
    if (std::from_chars(entry->d_name, end, pid).ptr != end || container_of(pid) != container) continue;
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
  const auto doors = guard::where_doors_are(*ours, root.get());
  if (!doors) return std::nullopt;
  auto door = guard::door_of_mountinfo(*mounts, allocate::kDoorInContainer, *doors);
  if (!door || door->pool != pool) return std::nullopt;
  return std::move(door->grant);
}

}  // namespace tranche::agent
