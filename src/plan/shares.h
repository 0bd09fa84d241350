#pragma once
// The arithmetic of shares, all of it: how memory and SMs of a GPU are divided, which way each figure is rounded, and
// which SM counts are known to compute wrong results. docs/shares.md is this file in words. Pure.
//
// Memory: floor(total MiB × slots held / slots in all). 143771 MiB by 10 → 14377; three slots → 43131.
// Threads: floor(100 × slots held / slots in all) percent, at least 1. By 3 → 33; two of three → 66.
// SMs from a percentage (measured on H200, 132 SMs): max(8, 2*floor(pct*SMs/200)). 25 % → 32; 1 % → 8.
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "config/model.h"
#include "inventory/inventory.h"
#include "plan/plan.h"

namespace tranche::plan {

Bytes memory_share(Bytes total, std::uint32_t held, std::uint32_t slots);
Percent threads_share(std::uint32_t held, std::uint32_t slots);
std::uint32_t sms_at(Percent threads, std::uint32_t sm_count);

// Which SM counts of a GPU are trusted to compute right, by architecture; a span is inclusive.
struct SmSpan {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
};
// The table for a GPU, or empty when nothing is known against any count (then every count is trusted).
std::vector<SmSpan> trusted_sm_counts(inventory::ComputeCapability capability, std::uint32_t sm_count);
bool is_trusted(std::uint32_t sms, const std::vector<SmSpan>& trusted);

// The percentage nearest to `threads` in the direction of `rounding` whose SM count is trusted. kOff returns `threads`.
// kDown falls back to up when nothing below is trusted: a share never becomes zero.
Percent round_to_trusted(Percent threads, std::uint32_t sm_count, const std::vector<SmSpan>& trusted,
                         config::SmRounding rounding);

// What `held` slots of `slots` on one device are worth, with all rules above applied.
ShareLimits share_of(Bytes memory, std::uint32_t sm_count, inventory::ComputeCapability capability, std::uint32_t held,
                     std::uint32_t slots, config::SmRounding rounding);

}  // namespace tranche::plan
