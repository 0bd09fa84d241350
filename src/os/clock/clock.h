#pragma once
// The clocks of this machine, read only here and in os/loop: decisions take `now` as an argument. Thread-safe.
#include <cstdint>
#include <string>

#include "base/time.h"

namespace tranche::os {

MonoTime mono_now();
WallTime wall_now();
std::uint64_t boot_ticks();  // in the unit of a process's start time (field 22 of /proc/<pid>/stat)

// Processor time of the calling thread since this was made, as a bound on reads whose cost a tenant chooses: the kernel
// writes the whole of /proc/<pid>/status for each read, with all supplementary groups of the process, and with 65,536
// of them a read takes 33 ms instead of 0.04. It does not measure elapsed time, because the load of the machine
// must not change a decision.
class CpuBudget {
 public:
  explicit CpuBudget(Duration most);  // Duration::max(): without a bound
  Duration used() const;
  bool spent() const { return used() >= most_; }

 private:
  Duration most_;
  Duration begun_;
};

std::string utc_text(WallTime time);  // "2025-03-04T12:01:02.123Z", years 1970 to 9999

}  // namespace tranche::os
