#include "base/time.h"

#include <algorithm>

namespace tranche {

Duration Backoff::next() {
  wait_ = wait_ == Duration::zero() ? std::min(first_, most_) : std::min(wait_ * 2, most_);
  const auto half = static_cast<std::uint64_t>(std::max<Duration::rep>(wait_.count() / 2, 1));
  // SplitMix64: small, and every seed, including zero, gives a sequence of the full period.
  std::uint64_t z = (random_ += 0x9e3779b97f4a7c15U);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return Duration(static_cast<Duration::rep>(half + (z ^ (z >> 31)) % (half + 1)));
}

Duration doubled(Duration first, Duration most, int failures) {
  for (int i = 1; i < failures && first < most; ++i) first *= 2;
  return std::min(first, most);
}

}  // namespace tranche
