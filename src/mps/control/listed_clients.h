#pragma once
// Private to mps: the processes that the servers of one pool list as their clients. A server lists bare pids, and
// its list is up to several seconds old when it is used: each pid stands for the process that had it when the pid was
// listed first, and for no process that the kernel gives the number later. Loop thread only.
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

  // All that the servers list, by their answer to a question of this time (boot_ticks()). A process that started after
  // the question is left out until the next answer: the server may mean an earlier one of its number.
  void heard(std::uint64_t asked, const std::vector<int>& pids);
  void ended(int pid);  // seen elsewhere; the pid means nothing until a list is without it
  // The process that this pid was listed for, while it lives.
  std::optional<ProcessRef> find(int pid) const;
  bool has(int pid) const { return known_.contains(pid); }  // dead or alive

 private:
  Look look_;
  std::map<int, std::optional<ProcessRef>> known_;  // absent: it has ended
};

}  // namespace tranche::host
