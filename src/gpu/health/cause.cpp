#include "gpu/health/cause.h"

#include "base/enum_names.h"

namespace tranche::health {

std::string_view to_string(Cause cause) {
  return enum_name<Cause::kClaims>(cause,
                                   {"xid", "reset", "lost", "unwatched", "driver", "node", "pool", "mig", "claims"});
}

}  // namespace tranche::health
