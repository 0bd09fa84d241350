#pragma once
// Identifies the processes on the GPUs: each is inspected once, when it is new, and then watched by pidfd, so that its
// exit is noticed at once and a recycled pid is not confused with it. Loop thread only; reads /proc.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "containers/attribution.h"
#include "guard/judge.h"
#include "guard/pool_processes.h"
#include "os/loop/loop.h"
#include "os/process/process.h"

namespace tranche::node {

struct KnownProcess {
  guard::ProcessId id;
  std::string name;
  pid_t parent = 0;
  std::string endpoint;  // the grant whose endpoint it sees; "": none
  bool endpoint_known = false;
  std::optional<containers::Container> container;
  std::unique_ptr<os::Process> handle;  // null: it could not be watched
  bool in_sight = false;                // false: not in this process's /proc, or exiting
  bool first = false;                   // PID 1 of its container
  bool host_daemon = false;             // a program of NVIDIA's that controls the node (guard/pool_processes.h)
  MonoTime looked{};
  // From the best source: the relay through which it connected, other processes of its container, the endpoint that it
  // sees.
  std::string grant;
  bool ours = false;               // belongs to the node: neither judged nor named
  bool spared = false;             // a daemon of the host without a grant: named, never ended as a foreign process
  std::optional<MonoTime> left{};  // no longer holds memory, and has not exited
};

class GuardedProcesses {
 public:
  // ended(pid): a callback of the loop; the process is no longer known then.
  GuardedProcesses(os::Loop& loop, std::string mps_root, std::function<void(const KnownProcess&)> ended);

  // `pids`: sorted, without duplicates. Inspects new ones and forgets those that are missing; true if some were new.
  bool follow(const std::vector<std::uint32_t>& pids);
  // A grant has a new tenant, and its endpoint is a new directory: inspects the processes attributed to the grant
  // again.
  void given(const std::string& grant);
  // The pools have reported a change since given().
  void pools_reported() { given_.clear(); }
  // Repeats the attribution. Call after follow() returned true, and when the pools have changed.
  void attribute(const std::map<std::string, guard::PoolProcesses>& pools);

  const KnownProcess* find(std::uint32_t pid) const;
  // kNotFound if the pid is now a different process. The process need not be among those that follow() was given.
  Status signal(const guard::ProcessId& id, int number);
  const std::map<std::uint32_t, KnownProcess>& all() const { return known_; }

 private:
  KnownProcess look_at(std::uint32_t pid);
  void find_endpoint(KnownProcess& process) const;
  void learn_pool_containers(const std::map<std::string, guard::PoolProcesses>& pools);

  os::Loop& loop_;
  std::string mps_root_;
  std::function<void(const KnownProcess&)> ended_;
  std::string own_container_;                             // its id; "" = this process is not in a container
  std::set<std::string> own_containers_;                  // this process's, and those of the pools' daemons
  std::map<std::uint32_t, std::string> pool_containers_;  // of the pools' own processes, once inspected
  std::map<std::string, std::string> grant_of_container_;
  std::set<std::string> given_;  // grants whose new tenant the pools have not reported yet
  std::map<std::uint32_t, KnownProcess> known_;
};

}  // namespace tranche::node
