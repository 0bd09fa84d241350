#pragma once
// A client channel to a local unix socket, with nothing shared between channels: a fresh one connects at once, however
// often the one before it failed. Connects lazily.
#include <grpc/support/time.h>
#include <grpcpp/channel.h>
#include <memory>
#include <string>

#include "base/time.h"

namespace tranche::kubelet {

// Durations as gRPC takes them: as spans from the call, so that no clock is read here and a step of the wall clock
// moves no deadline.
inline gpr_timespec grpc_span(Duration duration) {
  return gpr_time_from_nanos(duration.count(), GPR_TIMESPAN);
}

std::shared_ptr<grpc::Channel> local_channel(const std::string& socket_path);

}  // namespace tranche::kubelet
