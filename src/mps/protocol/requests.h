#pragma once
// Requests of `tranche node` to `tranche mps` on mps.sock (docs/internals/mps-contract.md, "Requests"): a value → one
// line of JSON, and that line → a value. requests.cpp describes the fields of each request once, for both directions.
// Strict: a field that is missing, unknown or of the wrong type is an error that names it. The replies: replies.h.
// Pure; fuzzed.
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "mps/protocol/grant_limits.h"

namespace tranche::mps {

// An endpoint: the pool and the grant.
struct EndpointName {
  std::string pool;
  std::string grant;
  auto operator<=>(const EndpointName&) const = default;
};

// The limits of an endpoint, and the pods that may use it. In a request, an absent field stays as it is. `tranche mps`
// keeps it for its next start: one line of JSON with the fields of the request; parse ∘ render is the identity.
struct EndpointTerms {
  std::optional<GrantLimits> limits = {};  // the grant's limits; absent: the pool's own
  bool any_pod = false;                    // several pods may connect through it: those of one claim
  std::string pod = {};                    // UID of the only pod that may connect; "": that of the first client
  friend bool operator==(const EndpointTerms&, const EndpointTerms&) = default;
};
struct OpenEndpointRequest {
  EndpointName endpoint;
  EndpointTerms terms = {};
  bool new_tenant = false;  // nothing of the endpoint's former tenant may reach this one
};
std::string render_terms(const EndpointTerms& terms);
Result<EndpointTerms> parse_terms(std::string_view line);

struct RemoveEndpointRequest {
  EndpointName endpoint;
  std::optional<std::uint64_t> made = {};  // as in the status document: only this endpoint, not its successor
};
struct AdmitRequest {
  EndpointName endpoint;
  bool open = true;
  std::string reason = {};
};
struct TerminateRequest {
  std::string pool;
  std::vector<int> pids = {};
  std::string reason = {};
};
using MpsRequest = std::variant<OpenEndpointRequest, RemoveEndpointRequest, AdmitRequest, TerminateRequest>;

// The first is what `tranche mps` accepts; the second is what fits into a line of at most 1024 bytes.
inline constexpr std::size_t kMostPids = 512;
inline constexpr std::size_t kMostPidsPerRequest = 60;

bool is_pool_name(std::string_view name);  // the format of pool names in plans: only such names become paths
bool is_pod_uid(std::string_view uid);     // at most 63 letters, digits and hyphens

std::string request_line(const MpsRequest& request);
Result<MpsRequest> parse_mps_request(std::string_view line);

// The limits of an endpoint, in requests and in the report of the pools.
nlohmann::ordered_json limits_json(const GrantLimits& limits);
Result<GrantLimits> read_limits(const nlohmann::json& list);

// `<mps-root>/other-holders`: the devices that containers hold without MPS, one UUID a line. The node agent writes it;
// `tranche mps` reads it and starts no daemon on these devices, because the daemon's compute mode would prevent their
// holders from starting new processes. parse ∘ render is the identity.
inline constexpr const char* kOtherHoldersFile = "other-holders";
std::string render_other_holders(const std::set<std::string>& devices);
std::set<std::string> parse_other_holders(std::string_view text);  // lines without a device UUID are skipped

}  // namespace tranche::mps
