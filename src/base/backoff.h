#pragma once
// The wait before the next attempt: doubles each time up to a maximum, then jittered to 50–100 % of it, so that the
// nodes of a cluster do not retry in step. A plain value; the seed makes it repeatable. Reads no clock.
#include <cstdint>

#include "base/time.h"

namespace tranche {

class Backoff {
 public:
  Backoff(Duration first, Duration most, std::uint64_t seed) : first_(first), most_(most), random_(seed) {}

  Duration next();
  void reset() { wait_ = Duration::zero(); }

 private:
  Duration first_;
  Duration most_;
  Duration wait_ = Duration::zero();
  std::uint64_t random_;
};

// The same without jitter, for one machine: `first` after the first failure, doubled after each further one up to
// `most`.
Duration doubled(Duration first, Duration most, int failures);

}  // namespace tranche
