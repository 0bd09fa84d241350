#pragma once
// Which pod's container a process runs in, from /proc/<pid>/cgroup: the second source beside the door in its mount
// table, for processes that have hidden that. cgroup v1 and v2; kubelet's cgroupfs and systemd drivers; containerd,
// CRI-O and Docker. Groups that a tenant makes for itself lie below its container's, so the outermost pod counts.
// Seen from a cgroup namespace of our own, the common beginning of a path is missing; the pod's part is enough.
// Pure; fuzzed.
#include <optional>
#include <string>
#include <string_view>

namespace tranche::guard {

struct Container {
  std::string pod_uid;  // "7b0d4e5c-…"; of a static pod 32 hexadecimal digits
  std::string id;       // 64 hexadecimal digits
  friend bool operator==(const Container&, const Container&) = default;
};

// Nothing when the process is in no pod's container, or when the lines of v1's hierarchies disagree.
std::optional<Container> container_of_cgroup(std::string_view text);

}  // namespace tranche::guard
