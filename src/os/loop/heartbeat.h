#pragma once
// A loop's liveness: a timer records the time once a second, and any thread reads how long ago that was. The age grows
// while the loop is stuck in a callback or the process is stopped. on_beat is called with each beat. Opened and
// destroyed on the loop's thread.
#include <atomic>
#include <functional>

#include "os/loop/loop.h"
#include "os/loop/timer.h"

namespace tranche::host {

class Heartbeat {
 public:
  explicit Heartbeat(Loop& loop, std::function<void()> on_beat = {}, Duration every = std::chrono::seconds(1));
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  Duration age() const;  // any thread

 private:
  void beat();

  Loop& loop_;
  std::function<void()> on_beat_;
  Duration every_;
  Timer timer_{loop_};
  std::atomic<MonoTime> last_;
};

}  // namespace tranche::host
