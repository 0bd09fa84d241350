#pragma once
// Which pod's container a process runs in, from /proc/<pid>/cgroup: the second source beside the endpoint in its mount
// table, for processes that have hidden that. cgroup v1 and v2; kubelet's cgroupfs and systemd drivers; containerd,
// CRI-O and Docker. Only what root makes counts: from the root of the hierarchy down to the pod, each part is one of
// kubelet's (`kubepods…`), below `--cgroup-root` where that is slices or one folder. So neither a user's delegated
// units (`/user.slice/…/pod<uid>/<id>`) nor groups that a tenant makes below its container's can name one. Seen from a
// cgroup namespace of our own, a path begins with `/..` for each group that ours is further down, and may then begin in
// the middle of kubelet's. Pure; fuzzed.
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
