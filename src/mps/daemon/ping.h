#pragma once
// Whether a control daemon lives, without a process: who connects to its socket is greeted at once (9 bytes, measured
// 26 µs; nothing comes from one that hangs), says nothing and goes away, as every CUDA process does once at its start.
// The greeting is looked for after 1 to 2 ms, so that pools that are asked together are heard together; only one that
// is not there by then is waited for. Loop thread.
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "os/loop/fd.h"
#include "os/loop/loop.h"
#include "os/loop/timer.h"

namespace tranche::host {

class Ping {
 public:
  // done comes once, as a turn of its own, and may drop this; never when this is dropped before.
  Ping(Loop& loop, const std::string& socket, Duration deadline, std::function<void(Status)> done);
  ~Ping();
  Ping(const Ping&) = delete;
  Ping& operator=(const Ping&) = delete;

 private:
  Status connect();
  void hear();
  bool readable();  // true: it is over
  void finish(Status status);

  Loop& loop_;
  std::string socket_;
  MonoTime until_;
  Duration deadline_;
  std::function<void(Status)> done_;
  Fd fd_;
  Loop::Id watch_ = 0;
  Timer timer_{loop_};
};

}  // namespace tranche::host
