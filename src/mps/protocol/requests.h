#pragma once
// Requests of `tranche node` to `tranche mps` on mps.sock (docs/internals/mps-contract.md, "Requests"): one line of
// JSON → a value, and a value → the line of JSON that answers it. Strict: a field that is missing, unknown or of the
// wrong type is an error that names it. Pure; fuzzed.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "mps/limits/grant_limits.h"
#include "mps/pool/terminated.h"

namespace tranche::agent {

// An endpoint: the pool and the grant.
struct EndpointName {
  std::string pool;
  std::string grant;
  auto operator<=>(const EndpointName&) const = default;
};

struct OpenEndpointRequest {
  EndpointName endpoint;
  std::optional<mps::GrantLimits> limits;  // the grant's limits; absent: unchanged
  bool new_tenant = false;                 // nothing of the endpoint's former tenant may reach this one
  bool any_pod = false;                    // several pods may come in by it: those of one claim
  std::string pod = {};                    // UID of the only pod that may come in by it; "": that of the first client
};
struct RemoveEndpointRequest {
  EndpointName endpoint;
  std::optional<std::uint64_t> made = {};  // as in the status document: only this endpoint, not its successor
};
struct AdmitRequest {
  EndpointName endpoint;
  bool open = true;
  std::string reason;
};
struct TerminateRequest {
  std::string pool;
  std::vector<int> pids;
  std::string reason;
};
struct DrainRequest {
  EndpointName endpoint;
  std::string reason;
  bool spare = false;   // leave clients that the stop signal does not kill
  int stop_signal = 0;  // 0: not known
};
using MpsRequest =
    std::variant<OpenEndpointRequest, RemoveEndpointRequest, AdmitRequest, TerminateRequest, DrainRequest>;

inline constexpr std::size_t kMostPids = 512;

bool is_pool_name(std::string_view name);   // the format of pool names in plans: only such names become paths
bool is_grant_name(std::string_view name);  // 16 hexadecimal digits
bool is_pod_uid(std::string_view uid);      // at most 63 letters, digits and hyphens

Result<MpsRequest> parse_mps_request(std::string_view line);

std::string done_reply();
std::string error_reply(const Error& error);
// `neighbours`: clients of other grants in the pool at the time, which killing a client with work in flight would have
// hurt. `problem`: why the request failed; "" = it succeeded.
std::string terminated_reply(const std::vector<mps::Terminated>& clients, Duration took, std::size_t neighbours = 0,
                             const std::string& problem = {});

}  // namespace tranche::agent
