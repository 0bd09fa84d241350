#pragma once
// What each XID error of NVIDIA's driver means for a GPU's slots (data/xids.yaml compiled in, which lists the sources),
// and the two variables of NVIDIA's device plugin that change which XIDs count: DP_DISABLE_HEALTHCHECKS and
// DP_ENABLE_HEALTHCHECKS. Each is a comma-separated list of XID numbers, in any case and with blanks; `all` or `xids`
// (and, as in NVIDIA's plugin, the number 0) anywhere in it mean every XID. For each number, enabling overrides
// disabling; disabling all and enabling some watches only those. Pure; fuzzed.
#include <array>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/enum_names.h"
#include "base/problem.h"

namespace tranche::gpu {

enum class XidClass {
  kIgnore,       // a notice
  kApplication,  // the process that caused it dies, the GPU is fine
  kDrain,        // no new work until the GPU has been quiet, answers, and no action is pending
  kReset,        // the GPU needs a reset: the fault does not end by waiting
};
ENUM_NAMES(XidClass::kReset, "ignore", "application", "drain", "reset")

struct XidRule {
  std::uint64_t from = 0;
  std::uint64_t to = 0;  // inclusive
  XidClass cls = XidClass::kDrain;
  std::string_view meaning;
};

std::span<const XidRule> xid_rules();        // by number
const XidRule* find_xid(std::uint64_t xid);  // nullptr: not in the catalogue
XidClass class_of_xid(std::uint64_t xid);    // kDrain if it is not in the catalogue

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

// Why a device does not accept new work, as one of a few kinds (for metrics and programs) and as a sentence (for
// people).
enum class Cause {
  kXid,        // an XID of class drain; or back after repeated faults and under observation
  kReset,      // the GPU needs a reset
  kLost,       // the GPU does not answer, or is no longer listed
  kUnwatched,  // its faults would not be seen
  kDriver,     // the driver is gone or hangs
  kNode,       // something that containers of the node need is missing
  kPool,       // its MPS pool is not serving
  kMig,        // the MIG manager is about to repartition its GPU
  kClaims,     // claims of Dynamic Resource Allocation hold part of its GPU
};
inline constexpr std::array kCauses{Cause::kXid,  Cause::kReset, Cause::kLost, Cause::kUnwatched, Cause::kDriver,
                                    Cause::kNode, Cause::kPool,  Cause::kMig,  Cause::kClaims};
ENUM_NAMES(Cause::kClaims, "xid", "reset", "lost", "unwatched", "driver", "node", "pool", "mig", "claims")

struct Unhealthy {
  Cause cause = Cause::kXid;
  std::string why;  // what is wrong and what ends it, in one sentence
  friend bool operator==(const Unhealthy&, const Unhealthy&) = default;
};

}  // namespace tranche::gpu
