#pragma once
// Identifies the container of a process from what the kernel reports. Reads /proc of processes that tenants own and
// that may exit meanwhile, and relies on nothing that a tenant can choose. Needs the host's process ids and
// CAP_SYS_PTRACE. No threads.
#include <sys/types.h>

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "os/clock/clock.h"

namespace tranche::mps {

// The ancestors of a process that are in its container; what cannot be read ends the list. For one request: reads each
// process once, at most kMostLooks in all, and for at most kMostTime of processor time, because a tenant determines the
// number of its clients, the depth of its process tree, and the duration of a read (CpuBudget). Any thread.
class Ancestors {
 public:
  static constexpr std::size_t kMostLooks = 1024;  // about 20 ms
  static constexpr Duration kMostTime = std::chrono::milliseconds(50);

  explicit Ancestors(std::string proc = "/proc", std::size_t most_looks = kMostLooks, Duration most_time = kMostTime);
  // The nearest first, so that the last is the topmost that is known to be in the container. The list ends before a
  // process that is in this process's pid namespace and another control group (a container runtime's shim), or has the
  // mounts of the node or of this process. Empty: the client itself is the topmost. Absent: kMostLooks or kMostTime is
  // exhausted.
  std::optional<std::vector<pid_t>> of(pid_t client);

 private:
  struct Look {
    pid_t parent = 0;
    std::vector<pid_t> namespaced = {};  // its pids, from the reader's namespace inwards; empty: it cannot be read
    std::optional<std::string> cgroup = {};
    std::string mounts = {};
    // PID 1 of a namespace directly below the reader's.
    bool is_init() const { return namespaced.size() == 2 && namespaced.back() == 1; }
  };
  const Look* look(pid_t pid);

  std::string proc_;
  std::size_t left_;
  os::CpuBudget time_;
  std::string ours_, nodes_;  // mount namespaces
  std::map<pid_t, Look> looks_;
};

// Returns a name for the container of a process: the same for all of its processes and different from that of any other
// container, also for processes in namespaces that a tenant creates (bubblewrap, apptainer, `unshare`). It is the pod
// and container of the control group below kubelet's; without one, the outermost pid namespace below ours; if that is
// ours, the mount namespace of the topmost ancestor that has neither our mounts nor the node's. "": the process is in
// no container, has exited, or cannot be inspected.
std::string container_of(int pid);
// The same for several processes of one request. Absent: the process has exited, or none of its threads lives long
// enough to be read, or the request has used up its limit of inspected ancestors.
std::optional<std::string> container_of(int pid, Ancestors& ancestors);
// The UID of the pod in a name that container_of() returned; "": it has none, because the control group is not
// kubelet's.
std::string pod_in_name(const std::string& container);
// The name of an unidentified container of this pod: pod_in_name() returns the UID, and no process is in it. "" for "".
std::string unknown_in_pod(const std::string& uid);
// The UID of the pod from the control group; "" if there is none. Absent: the process has exited, or none of its
// threads lives long enough to be read.
std::optional<std::string> pod_of(int pid);
// The exit of `first`, PID 1 of a pid namespace, ends the other process too: it is in that namespace or one below it.
bool is_below(int pid, int first);
// The process has our mounts or the node's: it is in no container, or in ours.
bool is_of_the_node(int pid);
// The grant whose endpoint, below this MPS root and in this pool, the process sees. For clients that connected before
// our start.
std::optional<std::string> grant_by_mounts(int pid, const std::string& mps_root, const std::string& pool);

}  // namespace tranche::mps
