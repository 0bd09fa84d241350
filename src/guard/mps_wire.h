#pragma once
// Messages between the guard and `tranche mps` over mps.sock (docs/reference/status.md): requests to end clients and to
// open or close endpoints, the replies, and the part of the status document that the guard uses. Replies come from a
// program of this project, but contain text from outside. Pure; fuzzed.
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

// If the other side refused, the error has its text.
Status read_reply(std::string_view line);
Result<std::vector<mps::Terminated>> read_terminated(std::string_view line);
// Also returns how many clients of other grants were in the pool at that time.
struct EndReply {
  std::vector<mps::Terminated> clients;
  std::size_t neighbours = 0;
};
Result<EndReply> read_end_reply(std::string_view line);

// Prefix of the reason for endpoints that the guard closed.
inline constexpr std::string_view kOurReason = "memory: ";

struct PoolFacts {
  std::string state;
  std::set<std::uint32_t> own;                    // processes of the pool itself: daemon, servers, proofs
  std::map<std::uint32_t, std::string> grant_of;  // its clients, by the endpoint through which they connected
  std::map<std::string, bool>
      endpoints;  // true: admits clients; without those that something other than the guard closed
  friend bool operator==(const PoolFacts&, const PoolFacts&) = default;
};
// By pool id; empty if the line cannot be parsed. `tranche mps` itself is in every pool's `own`.
std::map<std::string, PoolFacts> read_pool_facts(std::string_view line);

}  // namespace tranche::guard
