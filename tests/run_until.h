#pragma once
// Runs a loop until a condition holds that no event announces; it is checked every millisecond. False when it does not
// in time.
#include <chrono>
#include <functional>

#include "os/loop/loop.h"

namespace tranche::os {

inline bool run_until(Loop& loop, const std::function<bool()>& condition,
                      Duration deadline = std::chrono::seconds(60)) {
  bool late = false;
  const auto timer = loop.after(deadline, [&] {
    late = true;
    loop.stop();
  });
  Loop::Id next = 0;
  std::function<void()> look = [&] {
    if (condition()) return loop.stop();
    next = loop.after(std::chrono::milliseconds(1), look);
  };
  look();
  loop.run();
  loop.cancel(timer);
  loop.cancel(next);
  return !late;
}

}  // namespace tranche::os
