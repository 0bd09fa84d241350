#pragma once
// How long to wait before the next attempt: twice as long each time, up to a most, then jittered down to between half
// and all of it, so that the nodes of a cluster do not ask in step. A plain value; the seed makes it
// repeatable. No clock is read here.
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

}  // namespace tranche
