#pragma once
// Time is an argument: decisions take `now`, and only os/clock and os/loop read a clock (checked by ./dev lint). Pure.
#include <algorithm>
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

// The wait before the next attempt: doubles each time up to a maximum, then jittered to 50–100 % of it, so that the
// nodes of a cluster do not retry in step. The seed makes it repeatable.
class Backoff {
 public:
  Backoff(Duration first, Duration most, std::uint64_t seed) : first_(first), most_(most), random_(seed) {}

  Duration next() {
    wait_ = wait_ == Duration::zero() ? std::min(first_, most_) : std::min(wait_ * 2, most_);
    const auto half = static_cast<std::uint64_t>(std::max<Duration::rep>(wait_.count() / 2, 1));
    // SplitMix64: small, and every seed, including zero, gives a sequence of the full period.
    std::uint64_t z = (random_ += 0x9e3779b97f4a7c15U);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return Duration(static_cast<Duration::rep>(half + (z ^ (z >> 31)) % (half + 1)));
  }
  void reset() { wait_ = Duration::zero(); }

 private:
  Duration first_;
  Duration most_;
  Duration wait_ = Duration::zero();
  std::uint64_t random_;
};

// The same without jitter, for one machine: `first` after the first failure, doubled after each further one up to
// `most`.
inline Duration doubled(Duration first, Duration most, int failures) {
  for (int i = 1; i < failures && first < most; ++i) first *= 2;
  return std::min(first, most);
}

}  // namespace tranche
