#include "os/loop/heartbeat.h"

#include "base/grid.h"
#include "os/clock/clock.h"

namespace tranche::host {

Heartbeat::Heartbeat(Loop& loop, std::function<void()> on_beat, Duration every)
    : loop_(loop), on_beat_(std::move(on_beat)), every_(every), last_(mono_now()) {
  timer_.start(next_on_grid(loop_.now(), every_) - loop_.now(), [this] { beat(); });
}

Duration Heartbeat::age() const {
  return mono_now() - last_.load(std::memory_order_relaxed);
}

void Heartbeat::beat() {
  last_.store(mono_now(), std::memory_order_relaxed);
  timer_.start(next_on_grid(loop_.now(), every_) - loop_.now(), [this] { beat(); });
  if (on_beat_) on_beat_();
}

}  // namespace tranche::host
