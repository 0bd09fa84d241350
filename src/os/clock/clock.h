#pragma once
// The clocks of this machine, read only here and in os/loop: decisions take `now` as an argument. Thread-safe.
#include <cstdint>
#include <string>

#include "base/time.h"

namespace tranche::host {

MonoTime mono_now();
WallTime wall_now();
std::uint64_t boot_ticks();  // in the unit of a process's start time (field 22 of /proc/<pid>/stat)

std::string utc_text(WallTime time);  // "2025-03-04T12:01:02.123Z", years 1970 to 9999

}  // namespace tranche::host
