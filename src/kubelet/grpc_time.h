#pragma once
// Durations as gRPC takes them: as spans from the call, so that no clock is read here and a step of the wall clock
// moves no deadline.
#include <grpc/support/time.h>

#include "base/time.h"

namespace tranche::host {

inline gpr_timespec grpc_span(Duration duration) {
  return gpr_time_from_nanos(duration.count(), GPR_TIMESPAN);
}

}  // namespace tranche::host
