#pragma once
// Runs a loop for a minute at most.
#include <chrono>
#include <functional>

#include "os/loop/loop.h"

namespace tranche::os {

// Until it is stopped. False when nothing stops it in time.
inline bool run_until_stopped(Loop& loop, Duration deadline = std::chrono::seconds(60)) {
  bool late = false;
  const auto timer = loop.after(deadline, [&] {
    late = true;
    loop.stop();
  });
  loop.run();
  loop.cancel(timer);
  return !late;
}

// Until a condition holds that no event announces; it is checked every millisecond. False when it does not in time.
inline bool run_until(Loop& loop, const std::function<bool()>& condition,
                      Duration deadline = std::chrono::seconds(60)) {
  Loop::Id next = 0;
  std::function<void()> look = [&] {
    if (condition()) return loop.stop();
    next = loop.after(std::chrono::milliseconds(1), look);
  };
  look();
  const bool held = run_until_stopped(loop, deadline);
  loop.cancel(next);
  return held;
}

}  // namespace tranche::os
