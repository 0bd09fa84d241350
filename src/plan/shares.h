#pragma once
// The arithmetic of shares, all of it: how memory and SMs of a GPU are divided, which way each figure is rounded, and
// which SM counts are known to compute wrong results. docs/guide/share-sizes.md is this file in words. Pure.
//
// Memory: floor((total MiB - reserve) × slots held / slots in all). 143771 MiB by 10 → 14377; three slots → 43131.
// Threads: floor(100 × slots held / slots in all) percent, at least 1. By 3 → 33; two of three → 66. Of more than 100
// slots hundredths of a percent: 7 of 1000 → 0.7.
// SMs from a percentage (measured on H200, 132 SMs): max(8, 2*floor(pct*SMs/200)). 25 % → 32; 1 % → 8.
// A factor multiplies before anything is rounded: 200/6 → 33, where 2 × 16 would be 32.
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "config/model.h"
#include "gpu/inventory/inventory.h"
#include "plan/plan.h"

namespace tranche::plan {

// Measured on an H200 with driver 580: what the driver and the MPS server hold of a GPU before any client does, and
// what one CUDA context is charged at the fewest and at all SMs.
inline constexpr Bytes kDriverReserve = mib(615);
inline constexpr Bytes kServerReserve = mib(66);
inline constexpr Bytes kSmallestContext = mib(72);
inline constexpr Bytes kLargestContext = mib(514);
inline constexpr std::uint32_t kFewestSms = 8;     // what the driver gives however small the percentage
inline constexpr std::uint32_t kMostUnits = 1000;  // slots of one device that a container may hold several of
constexpr std::uint32_t kWholePercentSlots = 100;  // up to that many slots a percentage is whole, as NVIDIA's

Bytes memory_share(Bytes total, std::uint32_t held, std::uint32_t slots, std::uint32_t factor_hundredths = 100);
Percent threads_share(std::uint32_t held, std::uint32_t slots, std::uint32_t factor_hundredths = 100);
std::uint32_t sms_at(Percent threads, std::uint32_t sm_count);
// The smallest percentage that yields at least `sms`; a whole one where that yields no more. 16 of 132 → 13 %.
Percent threads_for(std::uint32_t sms, std::uint32_t sm_count);

// Bytes that a reserve takes off a device; `auto` is what was measured.
Bytes reserve_of(const config::Reserve& reserve, bool is_mig);
// What is left of a device's memory to divide; 0 = the driver does not say how much it has.
Bytes divisible(Bytes memory, Bytes reserve);
// How many slots of `slot` a device's memory holds.
std::uint32_t slots_of(Bytes slot, Bytes memory, Bytes reserve);

// Which SM counts of a GPU are trusted to compute right, by architecture; a span is inclusive.
struct SmSpan {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
};
// The table for a GPU, or empty when nothing is known against any count (then every count is trusted). An unknown
// driver
// ("") matches every row of its GPU.
std::vector<SmSpan> trusted_sm_counts(inventory::ComputeCapability capability, std::uint32_t sm_count,
                                      std::string_view driver = {});
// Whether a driver version ("580.159.04") is in [from, before), number by number; "" as a bound is none.
bool driver_within(std::string_view driver, std::string_view from, std::string_view before);
bool is_trusted(std::uint32_t sms, const std::vector<SmSpan>& trusted);

// The nearest trusted SM count in the direction of `rounding`, as a percentage: a whole one where that yields the same.
// kOff returns `threads`.
// kDown falls back to up when nothing below is trusted: a share never becomes zero.
Percent round_to_trusted(Percent threads, std::uint32_t sm_count, const std::vector<SmSpan>& trusted,
                         config::SmRounding rounding);

// What `held` slots of a device are worth by its policy: the one rule that daemons, grants and plans go by. What is
// open or the tenant's own is a ceiling that is written out as well: 100 % and all memory, never "not limited".
ShareLimits share_of(const PlannedDevice& device, std::uint32_t held);

// Numbers of slots worth showing, of so many: 1, 2, 5, 10, 20, 50, 100 … and all.
std::vector<std::uint32_t> request_sizes(std::uint32_t slots);

// The same for equal slots of a device that no plan holds.
ShareLimits share_of(Bytes memory, std::uint32_t sm_count, inventory::ComputeCapability capability, std::uint32_t held,
                     std::uint32_t slots, config::SmRounding rounding, std::string_view driver = {});

}  // namespace tranche::plan
