#pragma once
// What /proc shows of a container that is about to be stopped: what its stop signal does to a CUDA client
// (termination/survival.h decides), and which processes of the container stand above the client. Blocks for a few reads
// a client and kMostThreadFiles of threads. Any thread. Needs the host's process ids and CAP_SYS_PTRACE; what cannot be
// read counts as "the signal ends it".
#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "termination/survival.h"

namespace tranche::host {

// The ancestors of clients in their containers, for one request. Each process is looked at once, and no more than
// kMostLooks of them: a tenant chooses how many clients it has, and how deep each of them stands.
class Ancestors {
 public:
  static constexpr std::size_t kMostLooks = 1024;  // about 20 ms

  explicit Ancestors(std::string proc = "/proc", std::size_t most_looks = kMostLooks);
  // The nearest first, so that the last is the container's first process. They end where a process stands in our own
  // pid namespace and another control group (a container runtime's shim), or has the node's or our own mounts. Empty:
  // the client itself is the first process. Absent: the looks are used up.
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
  std::string ours_, nodes_;  // mount namespaces
  std::map<pid_t, Look> looks_;
};

// Files of threads that are read for all clients of one request together, about 10 ms. Of a client
// whose threads do not fit it counts that the signal ends it; of a first process, that it may hand the signal on.
inline constexpr std::size_t kMostThreadFiles = 512;

// One for each client, in order. `stop_signal` 0 = not known.
std::vector<stopping::Fate> client_fates(const std::vector<pid_t>& clients, int stop_signal,
                                         const std::string& proc = "/proc");

}  // namespace tranche::host
