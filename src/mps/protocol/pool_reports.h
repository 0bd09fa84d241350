#pragma once
// Parses what `tranche mps` reports about its pools (docs/reference/paths.md, "mps.sock"): one line of JSON → a value;
// and that value + plan → the pools whose slots must not be allocated, each with its reason. Strict: a line that cannot
// be parsed counts as no answer, never as health. Pure; fuzzed.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/shared_list.h"
#include "grants/allocate/grant.h"
#include "mps/protocol/requests.h"
#include "plan/plan.h"

namespace tranche::mps {

// Whether a client's death is harmless to its neighbours: "yes", "starting", "no"; `why` not.
struct ClientProtection {
  int pid = 0;
  std::string state;
  std::string why;
  friend bool operator==(const ClientProtection&, const ClientProtection&) = default;
};

// A grant's endpoint, as reported by its pool.
struct EndpointReport {
  std::string grant;
  std::vector<int> clients;                // living processes that connected through it
  std::optional<GrantLimits> limits = {};  // from openEndpoint; absent: it had none
  std::string refused_why = {};            // about the process that was refused last
  std::uint64_t limits_lifted = 0;         // processes refused because their environment lifts their memory limit
  std::uint64_t made = 0;                  // number of this endpoint of the grant
  std::vector<int> remnants = {};          // clients that have exited, and that the server still has
  std::vector<ClientProtection> protection = {};  // of its clients
  std::vector<int> dead = {};                     // clients that have exited, and that tranche-keeper still holds
  friend bool operator==(const EndpointReport&, const EndpointReport&) = default;
};

struct PoolFault {
  std::int64_t at_ms = 0;  // of the node's clock, since 1970
  std::string kind;        // "fatal", "exception", "unclean-exit"
  int culprit = 0;
  std::vector<int> victims;
  std::map<int, std::string> grants = {};  // of culprit and victims, where `tranche mps` knows them
  friend bool operator==(const PoolFault&, const PoolFault&) = default;
};

struct PoolProof {
  std::string state;  // "" = not reported; "proven", "failed", "running", "off", "unknown"
  std::string reason;
  int pid = 0;  // of the running CUDA start: our own client, not a foreign process
  friend bool operator==(const PoolProof&, const PoolProof&) = default;
};

struct PoolReport {
  std::string id;
  std::string state;   // one of metrics::kPoolStates
  std::string reason;  // why it is not serving; "" if it is
  int daemon_pid = 0;
  std::vector<int> clients;
  std::uint64_t restarts = 0;
  // The fields below are optional: "", 0 and empty if `tranche mps` does not report them.
  std::vector<std::string> devices;  // UUIDs
  std::vector<int> servers;
  std::string endpoint;         // "relay", "link"; "" until its daemon exists
  std::string endpoint_reason;  // why it is a link
  SharedList<EndpointReport> endpoints;
  std::vector<PoolFault> faults;  // the last, oldest first
  std::map<std::string, std::uint64_t> faults_total;
  PoolProof proof;
  bool shared_memory = false;  // containers need the MPS root's shm as their /dev/shm
  friend bool operator==(const PoolReport&, const PoolReport&) = default;
};
const EndpointReport* find_endpoint(const PoolReport& pool, const std::string& grant);  // nullptr: there is none

struct PoolReports {
  bool connected = false;          // false: `tranche mps` does not answer on the socket
  std::string problem;             // why not, or the fault in the last line
  int pid = 0;                     // of `tranche mps`; 0: not reported
  std::uint64_t keeper_files = 0;  // descriptors that the keeper may have open; 0: not reported
  std::string pages_problem;  // why `tranche mps` does not serve its HTTP pages; "" = it does, or none are configured
  std::string cpu_problem;    // of its control group (os/process/threads.h)
  std::map<std::string, PoolReport> pools;
  friend bool operator==(const PoolReports&, const PoolReports&) = default;
};

Result<PoolReports> parse_pool_reports(std::string_view json_line);

// By pool id. A pool that `tranche mps` does not report (yet) is as faulty as one that is down.
std::map<std::string, std::string> pool_faults(const plan::Plan& plan, const PoolReports& reports);

// Below the MPS root: what containers get as their /dev/shm if they need the servers'.
inline constexpr const char* kSharedMemoryFolder = "shm";

// Gives a container the /dev/shm of the MPS servers, but only if the driver of the grant's pool needs it. If the pod
// has a volume of its own there, its containers see that one, because kubelet lists it after this one.
void put_shared_memory(const grants::Paths& paths, const PoolReports& reports, grants::Grant& grant);

}  // namespace tranche::mps
