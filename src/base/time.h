#pragma once
// Time is an argument: decisions take `now`, and only os/clock and os/loop read a clock (checked by ./dev lint).
#include <chrono>
#include <cstdint>

namespace tranche {

using Duration = std::chrono::nanoseconds;
using MonoTime = std::chrono::time_point<std::chrono::steady_clock, Duration>;  // to measure
using WallTime = std::chrono::time_point<std::chrono::system_clock, Duration>;  // to show people

constexpr std::int64_t milliseconds_of(Duration duration) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
}

// Common due times for everything with the same period or a multiple of it, so that all share one wake-up of the
// process.
inline MonoTime next_on_grid(MonoTime now, Duration every) {
  if (every <= Duration::zero()) return now;
  return MonoTime((now.time_since_epoch() / every + 1) * every);
}

}  // namespace tranche
