#pragma once
// Why a device does not accept new work, as one of a few kinds (for metrics and programs) and as a sentence (for
// people). Pure.
#include <array>
#include <string>
#include <string_view>

#include "base/enum_names.h"

namespace tranche::gpu {

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
