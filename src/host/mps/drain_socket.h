#pragma once
// The `drain` socket of one door: a program in the container (tranche-drain, before the container is stopped) writes
// one line, "drain\n", and gets one line of JSON back when its container's clients have been ended through MPS. It is
// the tenant's to use and to misuse: a few connections at a time, few bytes, deadlines, and nothing but its own
// container can be reached by it. Who asks is the kernel's word. Loop thread only.
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "host/files/files.h"
#include "host/loop/loop.h"

namespace tranche::host {

struct DrainSocketLimits {
  std::size_t connections = 4;                 // more wait unaccepted
  Duration words = std::chrono::seconds(2);    // for the line
  Duration answer = std::chrono::seconds(35);  // for ours; then the connection is closed
};

class DrainSocket {
 public:
  using Reply = std::function<void(const std::string& json)>;  // once; nothing happens when it is gone
  // Replaces what is at `<door>/drain`. `asked` gets the caller's process id in our namespace; 0: not to be seen.
  static Result<std::unique_ptr<DrainSocket>> open(Loop& loop, const Dir& door, DrainSocketLimits limits,
                                                   std::function<void(int pid, Reply reply)> asked);
  virtual ~DrainSocket() = default;  // the file stays
};

}  // namespace tranche::host
