#pragma once
// Who the processes on the GPUs are: each is looked at once, when it is new, and watched by pidfd from then on, so that
// its end is known at once and a recycled pid is another process. Loop thread only; reads /proc.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "guard/attribution.h"
#include "guard/cgroup.h"
#include "guard/judge.h"
#include "guard/mps_wire.h"
#include "os/loop/loop.h"
#include "os/process/process.h"

namespace tranche::agent {

struct KnownProcess {
  guard::ProcessId id;
  std::string name;
  pid_t parent = 0;
  std::optional<guard::Endpoint> endpoint;
  std::optional<guard::Container> container;
  std::unique_ptr<host::Process> handle;  // null: it could not be watched
  bool in_sight = false;                  // false: there is no such process in our /proc
  bool first = false;                     // PID 1 of its container
  MonoTime looked{};
  // By the best source: the relay through which it came, its endpoint, its container's other processes.
  std::string grant;
  bool ours = false;               // the node's own: neither judged nor named
  bool spared = false;             // what looks like a daemon of the host: named, never ended as a foreign process
  std::optional<MonoTime> left{};  // holds nothing any more, and has not ended
};

class GuardedProcesses {
 public:
  // ended(pid): a turn, in which the process is known no more.
  GuardedProcesses(host::Loop& loop, std::string mps_root, std::function<void(const KnownProcess&)> ended);

  // Sorted, each once. Looks at those that are not known yet and lets go of those that are not among them; true when
  // some were new.
  bool follow(const std::vector<std::uint32_t>& pids);
  // A grant has a new tenant, and its endpoint is a directory of its own: looks anew at the processes that counted as
  // the grant's.
  void given(const std::string& grant);
  // Decides anew to whom they belong. After follow() told of new ones, and when the pools have changed.
  void attribute(const std::map<std::string, guard::PoolFacts>& pools);

  const KnownProcess* find(std::uint32_t pid) const;
  // kNotFound when it is not that process any more. It need not be one of those that are followed.
  Status signal(const guard::ProcessId& id, int number);
  const std::map<std::uint32_t, KnownProcess>& all() const { return known_; }
  bool can_see_endpoints() const { return endpoints_.has_value(); }

 private:
  KnownProcess look_at(std::uint32_t pid);
  void learn_pool_containers(const std::map<std::string, guard::PoolFacts>& pools);

  host::Loop& loop_;
  std::string mps_root_;
  std::function<void(const KnownProcess&)> ended_;
  std::optional<guard::EndpointsAt> endpoints_;
  std::string own_container_;                             // its id; "" = we are in none
  std::set<std::string> own_containers_;                  // ours, and those of the pools' daemons
  std::map<std::uint32_t, std::string> pool_containers_;  // of the pools' own processes, as far as looked at
  std::map<std::string, std::string> grant_of_container_;
  std::map<std::uint32_t, KnownProcess> known_;
};

}  // namespace tranche::agent
