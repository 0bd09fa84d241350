#pragma once
// The part of the report of `tranche mps` that the guard uses. Pure; fuzzed.
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "mps/protocol/pool_reports.h"

namespace tranche::guard {

// Whether a process in a container is one of NVIDIA's programs that administrators run on GPU nodes (DCGM, fabric
// manager …). A process chooses its own name, and an image the names of its programs, so that neither decides alone:
// the process must also have CAP_SYS_ADMIN in the node's user namespace, with which it controls the node anyway: the
// caller checks that. Pure.
bool has_host_daemons_name(std::string_view program);  // where /proc/<pid>/exe leads

// Prefix of the reason for endpoints that the guard closed.
inline constexpr std::string_view kOurReason = "memory: ";

struct PoolProcesses {
  std::string state;
  std::set<std::uint32_t> own;                    // processes of the pool itself: daemon, servers, proofs
  std::map<std::uint32_t, std::string> grant_of;  // its clients, by the endpoint through which they connected
  // The same of clients that have exited and still hold their memory (mps/relay/client_table.h). The kernel may have
  // given the pid to another process.
  std::map<std::uint32_t, std::string> remnants;
  std::map<std::uint32_t, std::string> dead;  // the same of those that tranche-keeper still holds, for a few seconds
  // By grant, true: admits clients. Without those that something other than the guard closed.
  std::map<std::string, bool> endpoints;
  friend bool operator==(const PoolProcesses&, const PoolProcesses&) = default;
};
// By pool id. `tranche mps` itself is in every pool's `own`.
std::map<std::string, PoolProcesses> pool_processes(const mps::PoolReports& reports);

}  // namespace tranche::guard
