#pragma once
// data/sm-counts.yaml compiled in: which SM counts of which GPU are trusted to compute correct results. sm_counts_test
// compares the two; the file has the evidence. For a GPU that is not listed, no count is known to be wrong.
#include <array>
#include <cstdint>
#include <string_view>

#include "gpu/inventory/inventory.h"
#include "plan/shares.h"

namespace tranche::plan {

struct SmCounts {
  inventory::ComputeCapability capability;
  std::uint32_t sm_count = 0;
  std::string_view driver_from;    // "" = any
  std::string_view driver_before;  // "" = any
  std::array<SmSpan, 8> trusted;   // padded with {0, 0}
};

// The first matching row applies.
inline constexpr std::array kSmCounts{
    SmCounts{{9, 0}, 132, "", "", {{{8, 16}, {30, 34}, {62, 66}, {118, 132}}}},
};

}  // namespace tranche::plan
