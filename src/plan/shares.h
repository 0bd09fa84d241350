#pragma once
// The arithmetic of shares: how memory and SMs of a GPU are divided, how each figure is rounded, and which SM counts
// are known to compute wrong results. Described in docs/guide/share-sizes.md. Pure.
//
// Memory: floor((total MiB - reserve) × slots held / all slots). 143771 MiB by 10 → 14377; three slots → 43131.
// Threads: floor(100 × slots held / all slots) percent, at least 1. By 3 → 33; two of three → 66. With more than 100
// slots, hundredths of a percent: 7 of 1000 → 0.7.
// SMs from a percentage (measured on H200, 132 SMs): max(8, 2*floor(pct*SMs/200)). 25 % → 32; 1 % → 8.
// A factor multiplies before rounding: 200/6 → 33, where 2 × 16 would be 32.
#include <cstdint>
#include <span>
#include <vector>

#include "base/units.h"
#include "config/model.h"
#include "gpu/inventory/inventory.h"
#include "plan/plan.h"

namespace tranche::plan {

// Measured on an H200 with driver 580: the memory that the driver and the MPS server use on a GPU without clients, and
// the memory charged for one CUDA context at the smallest number of SMs and at all SMs.
inline constexpr Bytes kDriverReserve = mib(615);
inline constexpr Bytes kServerReserve = mib(66);
inline constexpr Bytes kSmallestContext = mib(72);
inline constexpr Bytes kLargestContext = mib(514);
inline constexpr std::uint32_t kFewestSms = 8;     // the driver's minimum, however small the percentage
inline constexpr std::uint32_t kMostUnits = 1000;  // maximum slots of one device if a container may hold several
constexpr std::uint32_t kWholePercentSlots = 100;  // up to this many slots a percentage is whole, as NVIDIA's

Bytes memory_share(Bytes total, std::uint32_t held, std::uint32_t slots, std::uint32_t factor_hundredths = 100);
Percent threads_share(std::uint32_t held, std::uint32_t slots, std::uint32_t factor_hundredths = 100);
std::uint32_t sms_at(Percent threads, std::uint32_t sm_count);
// The smallest percentage that yields at least `sms`; a whole one if it does not yield more. 16 of 132 → 13 %.
Percent threads_for(std::uint32_t sms, std::uint32_t sm_count);

// Bytes that a reserve subtracts from a device; `auto` is the measured amount.
Bytes reserve_of(const config::Reserve& reserve, bool is_mig);
// The memory of a device that remains to divide; 0 = the driver does not report the memory.
Bytes divisible(Bytes memory, Bytes reserve);
// How many slots of `slot` fit into a device's memory.
std::uint32_t slots_of(Bytes slot, Bytes memory, Bytes reserve);

// SM counts of a GPU, inclusive.
struct SmSpan {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
};
// Those that a GPU is trusted to compute correct results with: data/sm-counts.yaml compiled in (sm_counts_test compares
// the two; the file has the evidence). Empty if no count is known to be wrong: then all counts are trusted.
std::span<const SmSpan> trusted_sm_counts(gpu::ComputeCapability capability, std::uint32_t sm_count);
bool is_trusted(std::uint32_t sms, std::span<const SmSpan> trusted);

// The nearest trusted SM count in the direction of `rounding`, as a percentage: a whole one if it yields the same. kOff
// returns `threads`. kDown rounds up if no smaller count is trusted: a share never becomes zero.
Percent round_to_trusted(Percent threads, std::uint32_t sm_count, std::span<const SmSpan> trusted,
                         config::SmRounding rounding);

// The limits of `held` slots of a device by its policy: the single rule for daemons, grants and plans. Open and tenant
// policies have explicit maximums too: 100 % and all memory, never "not limited".
ShareLimits share_of(const PlannedDevice& device, std::uint32_t held);

// Numbers of slots to show, up to `slots`: 1, 2, 5, 10, 20, 50, 100 … and all.
std::vector<std::uint32_t> request_sizes(std::uint32_t slots);

}  // namespace tranche::plan
