#include "os/loop/heartbeat.h"

#include "base/time.h"
#include "os/clock/clock.h"

namespace tranche::os {

Heartbeat::Heartbeat(Loop& loop, std::function<void()> on_beat, Duration every)
    : loop_(loop), on_beat_(std::move(on_beat)), every_(every), last_(mono_now()) {
  wait();
}

Duration Heartbeat::age() const {
  return mono_now() - last_.load(std::memory_order_relaxed);
}

void Heartbeat::wait() {
  due_ = next_on_grid(loop_.now(), every_);
  timer_.start(due_ - loop_.now(), [this] { beat(); });
}

void Heartbeat::beat() {
  last_.store(mono_now(), std::memory_order_relaxed);
  lateness_[beats_++ % lateness_.size()] = loop_.now() - due_;
  wait();
  if (on_beat_) on_beat_();
}

}  // namespace tranche::os
