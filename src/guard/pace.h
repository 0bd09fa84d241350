#pragma once
// How often the driver is asked about a GPU, so that a program over its limit is stopped before it exceeds it by much.
// While the figures of its grant change, the next sample is never later than the fastest program could reach the limit.
// While they rest, samples are at the configured interval, with cheaper reads of the GPU's total in between. Pure:
// reads no clock.
//
// Not bounded by this (docs/internals/guard.md): one allocation larger than the rest of the limit, and the growth of a
// grant that rested, between two reads of the total.
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "base/time.h"
#include "guard/judge.h"

namespace tranche::guard {

// A program that only allocates, 512 MiB at a time, reached 250 GiB/s on an H100; twice that is assumed.
inline constexpr std::uint64_t kFastestGrowth = 512ULL << 30;  // bytes per second
inline constexpr Duration kFastPace = std::chrono::milliseconds(4);
inline constexpr Duration kGlance = std::chrono::milliseconds(20);
inline constexpr Duration kMovesFor = std::chrono::seconds(30);  // after a client connected or its grant grew

struct Pace {
  Duration every{};                       // between full samples
  Duration glance{};                      // between reads of the total; 0 = none
  MonoTime look_again = MonoTime::max();  // when the figures count as resting, if they do not change
  friend bool operator==(const Pace&, const Pace&) = default;
};

struct PaceMemory {
  struct Grant {
    Bytes sum;
    std::set<pid_t> listed;     // pids, from the driver
    std::set<pid_t> connected;  // and from the relays, which know a client before it holds memory
    MonoTime moved{};
  };
  std::map<GrantOnDevice, Grant> grants;
};

// Makes the pace of a GPU fast enough for one of its devices. clients: pid → grant, of the device's pool, as reported
// by its relays. interval: the configured one.
void hasten(Pace& pace, const Device& device, const std::map<GrantOnDevice, Limit>& limits,
            const std::map<pid_t, std::string>& clients, PaceMemory& memory, Duration interval, MonoTime now);

}  // namespace tranche::guard
