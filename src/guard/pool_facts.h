#pragma once
// The part of the report of `tranche mps` that the guard uses. Pure; fuzzed.
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "mps/protocol/pools.h"

namespace tranche::guard {

// Prefix of the reason for endpoints that the guard closed.
inline constexpr std::string_view kOurReason = "memory: ";

struct PoolFacts {
  std::string state;
  std::set<std::uint32_t> own;                    // processes of the pool itself: daemon, servers, proofs
  std::map<std::uint32_t, std::string> grant_of;  // its clients, by the endpoint through which they connected
  // By grant, true: admits clients. Without those that something other than the guard closed.
  std::map<std::string, bool> endpoints;
  friend bool operator==(const PoolFacts&, const PoolFacts&) = default;
};
// By pool id. `tranche mps` itself is in every pool's `own`.
std::map<std::string, PoolFacts> pool_facts(const agent::PoolReports& reports);

}  // namespace tranche::guard
