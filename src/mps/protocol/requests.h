#pragma once
// What `tranche node` and `tranche mps` say to each other on mps.sock (docs/internals/mps-contract.md, "Requests"): a
// request is a value → one line of JSON, and that line → a value. requests.cpp describes the fields of each request
// once, for both directions. Strict: a field that is missing, unknown or of the wrong type is an error that names it. A
// reply is one line of JSON, too: {"ok":true,…} or {"ok":false,"error":"…",…}. Pure; fuzzed.
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/enum_names.h"
#include "base/result.h"
#include "base/units.h"

namespace tranche::mps {

// The limits of a grant on each of its devices, as the node agent sends them with openEndpoint and as they are stored
// beside the endpoint. Tenants cannot read or write them.
struct GrantLimit {
  std::string uuid;
  Bytes memory;     // whole MiB; 0 = not limited
  Percent threads;  // 0 = not limited
  friend bool operator==(const GrantLimit&, const GrantLimit&) = default;
};
using GrantLimits = std::vector<GrantLimit>;

inline constexpr std::size_t kMostGrantDevices = 64;
// Set for a device without a limit: more memory than any GPU has. Removing a limit instead would leave nothing to read
// back.
inline constexpr Bytes kNoMemoryLimit = gib(1024);

// GPU-… or MIG-…, also in the old form (MIG-GPU-…/1/0). Only these, because the name becomes part of a command.
bool is_device_name(std::string_view name);

// kInvalid: no device, too many, a duplicate, a name that is not a GPU UUID, more than 100 percent, or more memory than
// exists.
Status check_limits(const GrantLimits& limits);

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
struct TerminateRequest {
  std::string pool;
  std::vector<int> pids = {};
  std::string reason = {};
};
using MpsRequest = std::variant<OpenEndpointRequest, RemoveEndpointRequest, TerminateRequest>;

inline constexpr std::size_t kMostPids = 512;  // in one request

bool is_pool_name(std::string_view name);  // the format of pool names in plans: only such names become paths
bool is_pod_uid(std::string_view uid);     // at most 63 letters, digits and hyphens

// A process id in a message; 0 if it is absent, or is not one.
int pid_of(const nlohmann::json& value);
int pid_at(const nlohmann::json& object, std::string_view key);

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

// --- replies ---------------------------------------------------------------------------------------------------------

// The outcome of terminating a client: the process is stopped (SIGSTOP), its queued GPU work runs out, and then it is
// killed, so that no neighbour on the GPU is hurt (docs/internals/evidence/stopping.md). Plain values.
enum class TerminateOutcome {
  kTerminated,  // it was stopped and killed, and has exited
  kNotAClient,  // it has already exited, or the pool's servers do not know it
  kRefused,     // the kernel did not permit stopping it
  kTimedOut,    // it did not exit in time
};
ENUM_NAMES(TerminateOutcome::kTimedOut, "terminated", "not-a-client", "refused", "timed-out")

struct Terminated {
  int pid = 0;
  TerminateOutcome outcome = TerminateOutcome::kTerminated;
  std::string note = {};  // for people: the reason, or what was waited for
  friend bool operator==(const Terminated&, const Terminated&) = default;
};

std::string done_reply();
std::string error_reply(const Error& error);
std::string end_reply(const std::vector<Terminated>& clients);  // to `terminate`

// The clients of a reply to `terminate`; none in other replies. kUnavailable with the reply's text: the request was
// refused, or failed. kInvalid: the line is not a reply.
Result<std::vector<Terminated>> read_reply(std::string_view line);

}  // namespace tranche::mps
