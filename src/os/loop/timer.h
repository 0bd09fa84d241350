#pragma once
// A one-shot timer of the loop that belongs to its owner: it never fires after the owner is destroyed, and starting it
// again replaces it. Loop thread only.
#include <functional>
#include <utility>

#include "os/loop/loop.h"

namespace tranche::os {

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
