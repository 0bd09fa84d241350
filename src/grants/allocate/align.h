#pragma once
// Which undivided GPUs go together: the set of `size` GPUs that NVIDIA's best-effort policy would choose, found by
// dynamic programming over subsets instead of by listing partitions (16 GPUs: milliseconds instead of seconds).
//
// The rule: score a pair by PCIe distance (10…60) plus 100 per NVLink that joins them; split all available GPUs into
// sets of `size` (the last may be smaller) so that the sum of all pair scores inside sets is highest; from such a split
// take the best set that holds all required GPUs. So a pair is not broken up when something else can be taken. Pure.
#include <cstdint>
#include <span>
#include <vector>

#include "gpu/inventory/inventory.h"

namespace tranche::allocate {

int pair_score(const inventory::GpuLink& link);

// Positions are indices into inventory.gpus. `required` ⊆ `available`, required.size() <= size <= available.size().
// The answer is sorted. Ties go to the lowest positions. Beyond 16 available GPUs the set is grown greedily.
std::vector<std::uint32_t> align(const inventory::Inventory& inventory, std::span<const std::uint32_t> available,
                                 std::span<const std::uint32_t> required, std::uint32_t size);

}  // namespace tranche::allocate
