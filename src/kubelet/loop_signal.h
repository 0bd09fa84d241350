#pragma once
// How gRPC's threads reach the loop: a callback posted through a signal is dropped once the signal's owner is
// destroyed, and a signal that is raised many times before the callback runs causes one. With a `wait`, all within that
// time after the first cause one, and the loop wakes once: for output to people, which may be a little late. Created
// and destroyed on the loop thread; raise() from any thread.
#include <atomic>
#include <functional>
#include <memory>
#include <utility>

#include "os/loop/loop.h"

namespace tranche::kubelet {

class LoopSignal {
 public:
  LoopSignal(os::Loop& loop, std::function<void()> callback, Duration wait = {})
      : loop_(loop), wait_(wait), inside_(std::make_shared<Inside>()) {
    inside_->callback = std::move(callback);
  }
  ~LoopSignal() { inside_->open = false; }
  LoopSignal(const LoopSignal&) = delete;
  LoopSignal& operator=(const LoopSignal&) = delete;

  void raise() {
    if (inside_->raised.exchange(true)) return;
    loop_.post([inside = inside_, &loop = loop_, wait = wait_] {
      if (!inside->open) return;
      if (wait == Duration{}) return enter(*inside);
      loop.after(wait, [inside] { enter(*inside); });
    });
  }

 private:
  struct Inside {
    std::function<void()> callback;
    std::atomic<bool> raised = false;
    bool open = true;  // loop thread only
  };
  static void enter(Inside& inside) {
    inside.raised = false;  // before the callback: what changes during it raises the signal again
    if (inside.open) inside.callback();
  }
  os::Loop& loop_;
  const Duration wait_;
  std::shared_ptr<Inside> inside_;
};

}  // namespace tranche::kubelet
