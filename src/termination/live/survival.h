#pragma once
// Reads from /proc how the stop signal of a container will affect a CUDA client (termination/survival.h decides), and
// which processes of the container are ancestors of the client. Blocks for a few reads per client and kMostThreadFiles
// thread files. Any thread. Needs the host's process ids and CAP_SYS_PTRACE; unreadable state counts as "the signal
// ends the client".
#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "os/clock/clock.h"
#include "termination/survival.h"

namespace tranche::host {

// For the reads of one request: the processor time after which what is left counts as unreadable. A tenant determines
// the duration of a read (CpuBudget).
inline constexpr Duration kMostLookTime = std::chrono::milliseconds(50);

// The ancestors of clients in their containers, for one request. Reads each process once, and at most kMostLooks in
// all, because a tenant chooses the number of its clients and the depth of its process tree.
class Ancestors {
 public:
  static constexpr std::size_t kMostLooks = 1024;  // about 20 ms

  explicit Ancestors(std::string proc = "/proc", std::size_t most_looks = kMostLooks,
                     Duration most_time = kMostLookTime);
  // The nearest first, so that the last is the container's first process. The list ends before a process that is in
  // this process's pid namespace and another control group (a container runtime's shim), or has the mounts of the node
  // or of this process. Empty: the client itself is the first process. Absent: kMostLooks or
  // kMostLookTime is exhausted.
  std::optional<std::vector<pid_t>> of(pid_t client);

 private:
  struct Look {
    std::optional<stopping::Place> place;
    std::optional<std::string> cgroup;
    std::string mounts;
  };
  const Look* look(pid_t pid);

  std::string proc_;
  std::size_t left_;
  CpuBudget time_;
  std::string ours_, nodes_;  // mount namespaces
  std::map<pid_t, Look> looks_;
};

// Thread files read for all clients of one request together, about 10 ms. If a client's threads exceed the limit, the
// signal is assumed to end it; if a first process's do, it is assumed to forward the signal. The same once the request
// has used kMostLookTime.
inline constexpr std::size_t kMostThreadFiles = 512;

// One for each client, in order. `stop_signal` 0 = not known.
std::vector<stopping::Fate> client_fates(const std::vector<pid_t>& clients, int stop_signal,
                                         const std::string& proc = "/proc");

}  // namespace tranche::host
