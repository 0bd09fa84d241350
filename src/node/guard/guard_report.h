#pragma once
// What the node reports about its guard (docs/internals/guard.md): a part of the snapshot. Plain values.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/time.h"
#include "base/units.h"
#include "config/model.h"
#include "guard/judge.h"

namespace tranche::node {

// An order of the guard that was carried out, or that it attempted: for one of the order's processes, or for none.
struct GuardAct : guard::Order {
  WallTime at{};
  std::string holder;                 // "namespace/pod/container" once kubelet has reported it
  std::uint32_t pid = 0;              // 0: not about a single process
  Bytes memory;                       // of that process
  Bytes most;                         // the grant's largest sum since the crossing
  std::string outcome;                // "done", "not-a-client", "refused", "timed-out", "failed"
  std::string note;                   // why it was not done, in the text of the program that refused
  std::optional<Duration> stopped{};  // from the crossing to SIGSTOP
  Duration took{};                    // from the crossing (the foreign process) to this action
  std::vector<std::string> beside{};  // other tenants with clients on the device at that time
  std::uint64_t times = 1;
};

// A process on a shared GPU that is not an MPS client, or a client that does not belong to a grant.
struct GuardedProcess {
  std::string device;
  std::uint32_t pid = 0;
  Bytes memory;
  std::string name;  // chosen by the process itself
  std::string grant;
  std::string pod_uid;
  std::string container_id;
  friend bool operator==(const GuardedProcess&, const GuardedProcess&) = default;
};

// A process that the guard has stopped and neither ended nor continued yet.
struct GuardStopped {
  std::string device;
  std::string grant;
  std::string holder;
  std::uint32_t pid = 0;
  WallTime since{};
  friend bool operator==(const GuardStopped&, const GuardStopped&) = default;
};

struct GuardReport {
  std::string off;  // why the guard is off, "" while it is on
  Duration interval{};
  Duration pace{};  // present sampling interval: the configured one, or longer while no container holds a GPU
  std::map<std::string, Duration> paces;  // of GPUs that are sampled more often
  std::vector<GuardStopped> stopped;
  std::map<std::string, config::GuardMemory> policies;  // by resource
  config::GuardForeignProcesses foreign_processes_policy = config::GuardForeignProcesses::kObserve;
  std::vector<GuardAct> acts;                                                         // the latest ones, oldest first
  std::map<std::tuple<std::string, std::string, std::string>, std::uint64_t> counts;  // resource, policy, outcome
  std::vector<GuardedProcess> foreign_processes;
  std::vector<GuardedProcess> unattributed;
  std::vector<std::string> not_in_force;  // one sentence each
};

}  // namespace tranche::node
