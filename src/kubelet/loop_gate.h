#pragma once
// How gRPC's threads reach the loop: callbacks posted through a gate are dropped once the gate's owner is destroyed,
// and many posts before the callback runs become one. With a `wait`, all posts within that time after the first become
// one, and the loop wakes once: for output to people, which may be a little late. Created and destroyed on the loop
// thread; knock() from any thread.
#include <atomic>
#include <functional>
#include <memory>
#include <utility>

#include "os/loop/loop.h"

namespace tranche::host {

class LoopGate {
 public:
  LoopGate(Loop& loop, std::function<void()> turn, Duration wait = {})
      : loop_(loop), wait_(wait), inside_(std::make_shared<Inside>()) {
    inside_->turn = std::move(turn);
  }
  ~LoopGate() { inside_->open = false; }
  LoopGate(const LoopGate&) = delete;
  LoopGate& operator=(const LoopGate&) = delete;

  void knock() {
    if (inside_->knocked.exchange(true)) return;
    loop_.post([inside = inside_, &loop = loop_, wait = wait_] {
      if (!inside->open) return;
      if (wait == Duration{}) return enter(*inside);
      loop.after(wait, [inside] { enter(*inside); });
    });
  }

 private:
  struct Inside {
    std::function<void()> turn;
    std::atomic<bool> knocked = false;
    bool open = true;  // loop thread only
  };
  static void enter(Inside& inside) {
    inside.knocked = false;  // before the turn: what changes during it knocks again
    if (inside.open) inside.turn();
  }
  Loop& loop_;
  const Duration wait_;
  std::shared_ptr<Inside> inside_;
};

}  // namespace tranche::host
