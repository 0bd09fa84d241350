#pragma once
// Checks whether a control daemon responds, without starting a process: the daemon greets each connection at once (9
// bytes, measured 26 µs), and a hung daemon sends nothing. The ping then closes the connection without a message, as
// every CUDA process does once at its start. It first reads after 1 to 2 ms, so that pings of several pools share one
// wake-up, and waits only if the greeting is not there by then. Loop thread.
#include <functional>
#include <string>

#include "base/result.h"
#include "os/loop/fd.h"
#include "os/loop/loop.h"

namespace tranche::mps {

class Ping {
 public:
  // `done` runs once, in a callback of its own, and may destroy this object; it never runs after this object is
  // destroyed. true: the daemon sent the greeting that the relay needs (mps/relay/handshake.h); false: it sent another.
  using Done = std::function<void(const Result<bool>& is_known)>;
  Ping(os::Loop& loop, const std::string& socket, Duration deadline, Done done);
  ~Ping();
  Ping(const Ping&) = delete;
  Ping& operator=(const Ping&) = delete;

 private:
  void hear();
  bool readable();  // true: the ping is over
  void finish(const Result<bool>& result);

  os::Loop& loop_;
  std::string socket_;
  MonoTime until_;
  Duration deadline_;
  Done done_;
  os::Fd fd_;
  os::Loop::Id watch_ = 0;
  os::Timer timer_{loop_};
};

}  // namespace tranche::mps
