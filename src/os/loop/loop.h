#pragma once
// The one thread that owns state. An epoll loop: file descriptors, timers, signals, child exits (by pidfd) and closures
// posted from other threads, each handled in one uninterrupted callback during which now() does not change. Everything
// except post() and stop() may be called only on the loop's own thread. Callbacks may add and remove watches, including
// their own. A cancelled callback never runs again, even if its event was already fetched; it is destroyed when
// cancelled, or, if it is running, when it returns. Every holder of a Loop& must be destroyed before the loop.
#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "base/result.h"
#include "base/time.h"
#include "os/loop/fd.h"

namespace tranche::os {

class Loop {
 public:
  using Id = std::uint64_t;  // 0 = none

  static Result<std::unique_ptr<Loop>> open();
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  MonoTime now() const;  // when the current callback began; outside callbacks, the time
  WallTime wall_now() const;

  void post(std::function<void()> turn);  // any thread; runs in order; dropped after the loop is gone

  Id after(Duration delay, std::function<void()> turn);  // once; equal deadlines keep the order of the calls
  // fd stays the caller's, which cancels before closing it. Level-triggered; one watch per fd. Returns 0 if the kernel
  // refuses (a regular file, no memory, too many watches).
  Id watch(int fd, std::uint32_t epoll_events, std::function<void(std::uint32_t)> turn);
  void cancel(Id id);  // a timer or a watch; unknown ids are ignored

  // Blocks the signals for the whole process (call before threads start) and delivers them as callbacks. A later call
  // adds signals or replaces a signal's callback. They stay blocked after the loop is destroyed.
  Status on_signals(std::initializer_list<int> signals, std::function<void(int)> turn);

  void run();   // until stop(); may be called again
  void stop();  // any thread; the running callback is the last; before run(), that run returns at once

 private:
  struct Watch {
    int fd = -1;
    std::function<void(std::uint32_t)> turn;
  };

  Loop() = default;
  void wake();
  void begin_turn();
  void read_posted();
  void fire_timers();
  void read_signals();
  void arm_timer();

  Fd epoll_;
  Fd woken_;  // an eventfd, readable while closures wait
  Fd timer_;
  Fd signals_;
  std::mutex mutex_;  // of posted_
  std::deque<std::function<void()>> posted_;
  std::map<std::pair<MonoTime, Id>, std::function<void()>> timers_;  // by deadline, then as added
  std::unordered_map<Id, MonoTime> deadlines_;                       // of the timers
  MonoTime armed_for_ = MonoTime::max();
  std::unordered_map<Id, std::shared_ptr<Watch>> watches_;
  std::map<int, std::shared_ptr<std::function<void(int)>>> signal_turns_;
  Id next_id_ = 1;
  bool in_turn_ = false;
  MonoTime now_;
  WallTime wall_now_;
  std::atomic<bool> stopping_ = false;
};

// A one-shot timer of the loop that belongs to its owner: it never fires after the owner is destroyed, and starting it
// again replaces it. Loop thread only.
class Timer {
 public:
  explicit Timer(Loop& loop) : loop_(loop) {}
  ~Timer() { stop(); }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  void start(Duration delay, std::function<void()> turn) {
    stop();
    id_ = loop_.after(delay, [this, turn = std::move(turn)] {
      id_ = 0;
      turn();
    });
  }
  void stop() {
    if (id_ != 0) loop_.cancel(std::exchange(id_, 0));
  }
  bool running() const { return id_ != 0; }

 private:
  Loop& loop_;
  Loop::Id id_ = 0;
};

// A loop's liveness: a timer records the time once a second, and any thread reads how long ago that was. The age grows
// while the loop is stuck in a callback or the process is stopped. on_beat is called with each beat. Opened and
// destroyed on the loop's thread.
class Heartbeat {
 public:
  explicit Heartbeat(Loop& loop, std::function<void()> on_beat = {}, Duration every = std::chrono::seconds(1));
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  Duration age() const;             // any thread
  Duration worst_lateness() const;  // of the last 60 beats; loop thread

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
