#pragma once
// Time is an argument: decisions take `now`, only host/clock and host/loop read a clock (a check in ./dev lint).
#include <chrono>

namespace tranche {

using Duration = std::chrono::nanoseconds;
using MonoTime = std::chrono::time_point<std::chrono::steady_clock, Duration>;  // to measure
using WallTime = std::chrono::time_point<std::chrono::system_clock, Duration>;  // to show people

}  // namespace tranche
