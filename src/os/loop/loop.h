#pragma once
// The one thread that owns state. An epoll loop: file descriptors, timers, signals, child exits (by pidfd) and closures
// posted from other threads, each handled in one uninterrupted callback during which now() does not change. Everything
// except post() and stop() may be called only on the loop's own thread. Callbacks may add and remove watches, including
// their own. A cancelled callback never runs again, even if its event was already fetched; it is destroyed when
// cancelled, or, if it is running, when it returns. Every holder of a Loop& must be destroyed before the loop.
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <utility>

#include "base/result.h"
#include "base/time.h"

namespace tranche::os {

class Loop {
 public:
  using Id = std::uint64_t;  // 0 = none

  static Result<std::unique_ptr<Loop>> open();
  virtual ~Loop() = default;

  virtual MonoTime now() const = 0;  // when the current callback began; outside callbacks, the time
  virtual WallTime wall_now() const = 0;

  virtual void post(std::function<void()> turn) = 0;  // any thread; runs in order; dropped after the loop is gone

  virtual Id after(Duration delay, std::function<void()> turn) = 0;  // once
  // fd stays the caller's, which cancels before closing it. Level-triggered; one watch per fd. Returns 0 if the kernel
  // refuses (a regular file, no memory, too many watches).
  virtual Id watch(int fd, std::uint32_t epoll_events, std::function<void(std::uint32_t)> turn) = 0;
  virtual void cancel(Id id) = 0;  // a timer or a watch; unknown ids are ignored

  // Blocks the signals for the whole process (call before threads start) and delivers them as callbacks. A later call
  // adds signals or replaces a signal's callback. They stay blocked after the loop is destroyed.
  virtual Status on_signals(std::initializer_list<int> signals, std::function<void(int)> turn) = 0;

  virtual void run() = 0;   // until stop(); may be called again
  virtual void stop() = 0;  // any thread; the running callback is the last; before run(), that run returns at once
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

}  // namespace tranche::os
