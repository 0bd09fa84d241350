#pragma once
// What this node reports of a prepared claim in the ResourceClaim's `status.devices` (AllocatedDeviceStatus): for each
// of its devices whether it is ready, whether its limits are enforced, and which they are. The list is merged by
// driver, pool, device and shareID, and each writer owns its entries (server-side apply): entries of other drivers are
// neither read nor changed. Builds and compares texts; when to write is ClaimStatuses (node/dra/claims.h). Pure.
//
// Source: staging/src/k8s.io/api/resource/v1/types.go; pkg/registry/resource/resourceclaim (what is refused).
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "dra/prepare.h"

namespace tranche::dra {

struct ClaimStatus {
  ClaimName name;
  std::string driver;
  // JSON, one for each device, without the times of its conditions; none: entries of an earlier time are withdrawn.
  std::vector<std::string> entries = {};
  friend bool operator==(const ClaimStatus&, const ClaimStatus&) = default;
};

inline constexpr const char* kReady = "Ready";
inline constexpr const char* kLimitsEnforced = "LimitsEnforced";
// Each device of the part reports its conditions (kube::condition_json).
void add_part(ClaimStatus& status, const Part& part, const nlohmann::json& conditions);

std::string claim_path(const ClaimName& claim);         // of the object
std::string claim_status_path(const ClaimName& claim);  // with the query of a server-side apply
// "at most 6144 MiB and 30 SMs of GPU-…": what a container has of the part's GPU.
std::string part_text(const Part& part);

// What to apply; nullopt: the driver's entries in `stored`, the ResourceClaim as the API server has it, are those of
// `status`. A condition whose status stays keeps its lastTransitionTime.
std::optional<std::string> changed_status(const ClaimStatus& status, const nlohmann::json& stored, WallTime now);

}  // namespace tranche::dra
