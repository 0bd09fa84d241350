#pragma once
// Moments at which everything with a period, or a multiple of it, is due together: one wake-up of the process for all.
#include "base/time.h"

namespace tranche {

inline MonoTime next_on_grid(MonoTime now, Duration every) {
  if (every <= Duration::zero()) return now;
  return MonoTime((now.time_since_epoch() / every + 1) * every);
}

}  // namespace tranche
