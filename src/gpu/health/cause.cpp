#include "gpu/health/cause.h"

namespace tranche::health {

std::string_view to_string(Cause cause) {
  switch (cause) {
    case Cause::kXid:
      return "xid";
    case Cause::kReset:
      return "reset";
    case Cause::kLost:
      return "lost";
    case Cause::kUnwatched:
      return "unwatched";
    case Cause::kDriver:
      return "driver";
    case Cause::kNode:
      return "node";
    case Cause::kPool:
      return "pool";
    case Cause::kMig:
      return "mig";
    case Cause::kClaims:
      return "claims";
  }
  return "xid";
}

}  // namespace tranche::health
