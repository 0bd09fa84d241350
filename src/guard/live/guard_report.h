#pragma once
// What the node tells of its guard (docs/internals/guard.md): a part of the snapshot. Plain values.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/time.h"
#include "base/units.h"
#include "config/guard.h"

namespace tranche::agent {

// Something that the guard did, or was to do.
struct GuardAct {
  WallTime at{};
  std::string what;  // guard::to_string(Order::What)
  std::string grant;
  std::string holder;  // "namespace/pod/container" when kubelet has told
  std::string device;
  std::string pool;
  std::string resource;
  std::string policy;
  std::uint32_t pid = 0;  // 0: of no single process
  Bytes memory;           // of that process
  Bytes sum;              // of the grant on the device, when it was judged
  Bytes most;             // the largest that was seen of it since the crossing
  Bytes limit;
  std::string outcome;                // "done", "not-a-client", "refused", "timed-out", "failed"
  std::string note;                   // why not, in the words of whoever refused
  std::optional<Duration> stopped{};  // from the crossing to SIGSTOP
  Duration took{};                    // from the crossing (the foreign process) to this
  std::vector<std::string> beside{};  // other tenants with clients on the device then
  std::uint64_t times = 1;
  friend bool operator==(const GuardAct&, const GuardAct&) = default;
};

// A process on a shared GPU that is no MPS client, or a client that belongs to no grant.
struct GuardedProcess {
  std::string device;
  std::uint32_t pid = 0;
  Bytes memory;
  std::string name;  // its own choice
  std::string grant;
  std::string pod_uid;
  std::string container_id;
  friend bool operator==(const GuardedProcess&, const GuardedProcess&) = default;
};

// A process that the guard has stopped and that is neither ended nor continued yet.
struct GuardStopped {
  std::string device;
  std::string grant;
  std::string holder;
  std::uint32_t pid = 0;
  WallTime since{};
  friend bool operator==(const GuardStopped&, const GuardStopped&) = default;
};

struct GuardReport {
  std::string off;  // why there is no guard, "" while there is one
  Duration interval{};
  Duration pace{};  // how often the driver is asked now: the interval, or less while nobody holds anything
  std::map<std::string, Duration> paces;  // of GPUs that are looked at more often than that
  std::vector<GuardStopped> stopped;
  std::map<std::string, config::GuardMemory> policies;  // by resource
  config::GuardForeignProcesses foreign_processes_policy = config::GuardForeignProcesses::kObserve;
  std::map<std::pair<std::string, std::string>, Bytes> limits;                        // by grant and device
  std::vector<GuardAct> acts;                                                         // the last ones, oldest first
  std::map<std::tuple<std::string, std::string, std::string>, std::uint64_t> counts;  // resource, policy, outcome
  std::vector<GuardedProcess> foreign_processes;
  std::vector<GuardedProcess> unattributed;
  std::vector<std::string> not_in_force;  // one sentence each
};

}  // namespace tranche::agent
