#pragma once
// What the guard and `tranche mps` say to each other over mps.sock (docs/reference/status.md): requests to end clients
// and to open or close endpoints, the replies, and what of the status document the guard goes by. Replies come from a
// program of ours, but what is in them came from outside. Pure; fuzzed.
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "mps/pool/terminated.h"

namespace tranche::guard {

inline constexpr std::size_t kMostPidsPerRequest = 60;  // a request line is at most 1024 bytes

std::string terminate_request(const std::string& pool, const std::vector<std::uint32_t>& pids,
                              const std::string& reason);
std::string admit_request(const std::string& pool, const std::string& grant, bool open, const std::string& reason);

// Errors are the other side's own words where it refused.
Status read_reply(std::string_view line);
Result<std::vector<mps::Terminated>> read_terminated(std::string_view line);
// The same with what is said besides: how many clients of others were in the pool then.
struct EndReply {
  std::vector<mps::Terminated> clients;
  std::size_t neighbours = 0;
};
Result<EndReply> read_end_reply(std::string_view line);

// Endpoints that the guard closed give a reason that begins with this.
inline constexpr std::string_view kOurReason = "memory: ";

struct PoolFacts {
  std::string state;
  std::set<std::uint32_t> own;                    // processes of the pool itself: daemon, servers, proofs
  std::map<std::uint32_t, std::string> grant_of;  // its clients, by the endpoint through which they came
  std::map<std::string, bool> endpoints;          // admitting; those that others than the guard closed are left out
  friend bool operator==(const PoolFacts&, const PoolFacts&) = default;
};
// By pool id; empty for a line that is not understood. `tranche mps` itself counts as every pool's own.
std::map<std::string, PoolFacts> read_pool_facts(std::string_view line);

}  // namespace tranche::guard
