#pragma once
// How often the driver is asked about a GPU, so that a program over its limit is stopped before it holds much more than
// that: never later than the fastest program could cross a limit, while the figures of its grant move; at the
// configured interval when they rest, with a cheaper question for the GPU's total in between. Pure: reads no clock.
//
// What cannot be bounded this way (docs/internals/guard.md): one allocation that is larger than the rest of the limit,
// and the growth of a grant that rested, between two glances.
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/time.h"
#include "guard/judge.h"

namespace tranche::guard {

// A program that does nothing but allocate 512 MiB at a time got 250 GiB/s on an H100; twice that is assumed.
inline constexpr std::uint64_t kFastestGrowth = 512ULL << 30;  // bytes a second
inline constexpr Duration kFastPace = std::chrono::milliseconds(4);
inline constexpr Duration kGlance = std::chrono::milliseconds(20);
inline constexpr Duration kMovesFor = std::chrono::seconds(30);  // after a client came or its grant grew

struct Pace {
  Duration every{};                       // between full samples
  Duration glance{};                      // between questions for the total; 0 = none
  MonoTime look_again = MonoTime::max();  // when the figures count as resting, if they stay as they are
  friend bool operator==(const Pace&, const Pace&) = default;
};

struct PaceMemory {
  struct Grant {
    Bytes sum;
    std::set<std::uint32_t> listed;     // pids, by the driver
    std::set<std::uint32_t> connected;  // and by the relays: a client is known there before it holds memory
    MonoTime moved{};
  };
  std::map<GrantOnDevice, Grant> grants;
};

// clients: pid → grant, of the device's pool, as its relays report them. interval: the configured one.
Pace pace_of(const Device& device, const std::map<GrantOnDevice, Limit>& limits,
             const std::map<std::uint32_t, std::string>& clients, PaceMemory& memory, Duration interval, MonoTime now);

}  // namespace tranche::guard
