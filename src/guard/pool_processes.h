#pragma once
// The part of the report of `tranche mps` that the guard uses. Pure; fuzzed.
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "mps/protocol/pool_reports.h"

namespace tranche::guard {

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
std::map<std::string, PoolProcesses> pool_processes(const agent::PoolReports& reports);

}  // namespace tranche::guard
