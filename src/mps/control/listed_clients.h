#pragma once
// Private to mps: the processes that the servers of one pool list as their clients. A server lists only pids, and its
// list can be several seconds old. Each pid therefore identifies the process that had it when the server first listed
// it, and never a later process with the same number. Loop thread only.
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "base/result.h"
#include "os/process/process.h"

namespace tranche::host {

class ListedClients {
 public:
  using Look = std::function<Result<ProcessRef>(pid_t)>;
  explicit ListedClients(Look look = process_ref) : look_(std::move(look)) {}

  // Records all pids that the servers list in an answer to a question of time `asked` (boot_ticks()). A process that
  // started after the question is left out until the next answer, because the server may mean an earlier process with
  // its number.
  void heard(std::uint64_t asked, const std::vector<int>& pids);
  void ended(int pid);  // the process has ended; the pid is ignored until a list omits it
  // The process that this pid was listed for, while it lives.
  std::optional<ProcessRef> find(int pid) const;
  bool has(int pid) const { return known_.contains(pid); }  // dead or alive

 private:
  Look look_;
  std::map<int, std::optional<ProcessRef>> known_;  // absent: the process has ended
};

}  // namespace tranche::host
