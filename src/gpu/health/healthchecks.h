#pragma once
// The two variables of NVIDIA's device plugin that change which XIDs count: DP_DISABLE_HEALTHCHECKS and
// DP_ENABLE_HEALTHCHECKS. Each is a comma-separated list of XID numbers, in any case and with blanks; `all` or `xids`
// (and, as in NVIDIA's plugin, the number 0) anywhere in it mean every XID. For each number, enabling overrides
// disabling; disabling all and enabling some watches only those. The catalogue itself is xids.h. Pure; fuzzed.
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/problem.h"
#include "gpu/health/xids.h"

namespace tranche::health {

inline constexpr std::string_view kDisableVariable = "DP_DISABLE_HEALTHCHECKS";
inline constexpr std::string_view kEnableVariable = "DP_ENABLE_HEALTHCHECKS";

struct XidChoice {
  bool all = false;
  std::set<std::uint64_t> xids;
  friend bool operator==(const XidChoice&, const XidChoice&) = default;
};

struct HealthChecks {
  XidChoice disabled;
  XidChoice enabled;
  // No driver event makes a device unhealthy. A lost GPU still does.
  bool off() const { return disabled.all && !enabled.all && enabled.xids.empty(); }
  friend bool operator==(const HealthChecks&, const HealthChecks&) = default;
};

// Tokens that are not numbers are skipped, each with a warning that names it. `variable` is for the warning.
XidChoice parse_xid_choice(std::string_view text, std::string_view variable, std::vector<Problem>& problems);
HealthChecks parse_health_checks(std::string_view disable, std::string_view enable, std::vector<Problem>& problems);
std::string to_string(const XidChoice& choice);  // "all,13,31": what parse_xid_choice reads back

// What an XID means on this node. An enabled XID makes the GPU unhealthy: by its own class if that class does, else as
// kDrain.
XidClass class_of(const HealthChecks& checks, std::uint64_t xid);

}  // namespace tranche::health
