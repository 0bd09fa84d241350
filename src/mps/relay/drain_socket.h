#pragma once
// The `drain` socket of one endpoint. A program in the container (tranche-drain, before the container is stopped)
// writes "drain\n" and gets one line of JSON when those of its container's clients that the stop signal would kill have
// been ended. A program on the node (tranche-runtime) writes "drain N\n", where N is the signal that the container is
// about to get, and gets "{\"waiting\":true}\n" as soon as the clients are stopped, then the same line of JSON.
//
// It is the tenant's to use and to misuse: a few connections at a time and a second, few bytes, deadlines, and nothing
// but its own container can be reached by it. The kernel reports who asks; a caller that has ended is not heard.
// Loop thread only.
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "os/files/files.h"
#include "os/loop/loop.h"

namespace tranche::host {

struct DrainSocketLimits {
  std::size_t connections = 4;                // more wait unaccepted
  double burst = 16;                          // accepted at once after a pause; more wait, too
  double per_second = 4;                      // accepted from then on
  Duration words = std::chrono::seconds(2);   // for the line
  Duration answer = std::chrono::minutes(5);  // for ours; then the connection is closed
};

class DrainSocket {
 public:
  using Reply = std::function<void(const std::string& json)>;  // once; nothing happens when it is gone
  struct Asked {
    int pid = 0;  // of the caller in our namespace; 0: not visible
    unsigned uid = 0;
    int signal = 0;  // 0: it does not say
  };
  // Replaces what is at `<door>/drain`.
  static Result<std::unique_ptr<DrainSocket>> open(Loop& loop, const Dir& endpoint, DrainSocketLimits limits,
                                                   std::function<void(const Asked&, Reply reply)> asked);
  virtual ~DrainSocket() = default;  // the file stays
};

}  // namespace tranche::host
