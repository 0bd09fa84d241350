#pragma once
// Reads from /proc which processes of a container are ancestors of a process in it. Any thread. Needs the host's
// process ids and CAP_SYS_PTRACE; what cannot be read ends the list.
#include <sys/types.h>

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "os/clock/clock.h"

namespace tranche::agent {

// For one request. Reads each process once, at most kMostLooks in all, and for at most kMostTime of processor time,
// because a tenant determines the number of its clients, the depth of its process tree, and the duration of a read
// (CpuBudget).
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
  struct Place {
    pid_t parent = 0;
    std::vector<pid_t> namespaced;  // its pids, from the reader's namespace inwards
  };
  struct Look {
    std::optional<Place> place;
    std::optional<std::string> cgroup;
    std::string mounts;
  };
  static std::optional<Place> place_of(const std::string& status);
  static bool is_init(const Place& place);
  const Look* look(pid_t pid);

  std::string proc_;
  std::size_t left_;
  host::CpuBudget time_;
  std::string ours_, nodes_;  // mount namespaces
  std::map<pid_t, Look> looks_;
};

}  // namespace tranche::agent
