#pragma once
// Common due times for everything with the same period or a multiple of it, so that all share one wake-up of the
// process.
#include "base/time.h"

namespace tranche {

inline MonoTime next_on_grid(MonoTime now, Duration every) {
  if (every <= Duration::zero()) return now;
  return MonoTime((now.time_since_epoch() / every + 1) * every);
}

}  // namespace tranche
