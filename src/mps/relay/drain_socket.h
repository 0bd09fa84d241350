#pragma once
// The `drain` socket of one endpoint. A program in the container (tranche-drain, before the container is stopped)
// writes "drain\n" and gets one line of JSON when those clients of its container that the stop signal would kill have
// been terminated.
//
// Tenants can use and misuse this socket, so connections at a time and per second, bytes and waits are bounded, and a
// caller can affect only its own container. The kernel reports the caller; a caller that has exited is ignored. Loop
// thread only.
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "os/files/files.h"
#include "os/loop/loop.h"

namespace tranche::host {

struct DrainSocketLimits {
  std::size_t connections = 4;                // further connections wait unaccepted
  double burst = 16;                          // accepted at once after a pause; further ones wait
  double per_second = 4;                      // accepted continuously
  Duration words = std::chrono::seconds(2);   // for the caller's line
  Duration answer = std::chrono::minutes(5);  // for our reply; then the connection is closed
};

class DrainSocket {
 public:
  using Reply = std::function<void(const std::string& json)>;  // runs once; does nothing if the connection is gone
  // `caller`: its pid in our namespace; 0: not visible.
  using Asked = std::function<void(int caller, Reply reply)>;
  // Replaces any file at `<endpoint>/drain`.
  static Result<std::unique_ptr<DrainSocket>> open(Loop& loop, const Dir& endpoint, DrainSocketLimits limits,
                                                   Asked asked);
  virtual ~DrainSocket() = default;  // the file stays
};

}  // namespace tranche::host
