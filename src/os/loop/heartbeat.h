#pragma once
// A loop's liveness: a timer records the time once a second, and any thread reads how long ago that was. The age grows
// while the loop is stuck in a callback or the process is stopped. on_beat is called with each beat. Opened and
// destroyed on the loop's thread.
#include <algorithm>
#include <array>
#include <atomic>
#include <functional>

#include "os/loop/loop.h"

namespace tranche::os {

class Heartbeat {
 public:
  explicit Heartbeat(Loop& loop, std::function<void()> on_beat = {}, Duration every = std::chrono::seconds(1));
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  Duration age() const;                                                    // any thread
  Duration worst_lateness() const { return std::ranges::max(lateness_); }  // of the last 60 beats; loop thread

 private:
  void wait();
  void beat();

  Loop& loop_;
  std::function<void()> on_beat_;
  Duration every_;
  Timer timer_{loop_};
  std::atomic<MonoTime> last_;
  MonoTime due_;
  std::array<Duration, 60> lateness_{};
  std::size_t beats_ = 0;
};

}  // namespace tranche::os
