#pragma once
// Which grant and which pod's container a process belongs to. Pure; fuzzed.
#include <optional>
#include <string>
#include <string_view>

namespace tranche::containers {

// --- by what its container has mounted -------------------------------------------------------------------------------

// The endpoint shows the grant: a tenant cannot change that through its environment (measured;
// docs/internals/decisions/0003-endpoint-per-grant.md).

bool is_grant(std::string_view name);  // 16 hexadecimal digits

// A directory, by its file system and its path there: "0:21 /nvidia/mps". The path at which a process sees it does not
// matter. `mountinfo`: the content of /proc/<pid>/mountinfo of a process that sees the directory at `path` (absolute,
// without symbolic links).
std::optional<std::string> mounted_at(std::string_view mountinfo, std::string_view path);

// --- by its control group --------------------------------------------------------------------------------------------

// The fallback for processes that hide the endpoint in their mount table. Supports cgroup v1 and v2; kubelet's cgroupfs
// and systemd drivers; containerd, CRI-O and Docker. Only groups that root creates count: from the root of the
// hierarchy to the pod, each part must be one of kubelet's (`kubepods…`), below `--cgroup-root` if that is slices or
// one folder. So neither a user's delegated units (`/user.slice/…/pod<uid>/<id>`) nor groups that a tenant creates
// below its container's can name a container. In a cgroup namespace of this process, a path begins with `/..` for each
// group that this process is further down, and may then begin in the middle of kubelet's hierarchy.
struct Container {
  std::string pod_uid;  // "7b0d4e5c-…"; of a static pod 32 hexadecimal digits
  std::string id;       // 64 hexadecimal digits
  friend bool operator==(const Container&, const Container&) = default;
};

// `text`: of /proc/<pid>/cgroup. Absent if the process is not in a pod's container, or if the lines of v1's hierarchies
// disagree.
std::optional<Container> container_of_cgroup(std::string_view text);

}  // namespace tranche::containers
