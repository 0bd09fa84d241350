#pragma once
// Which of the available slots kubelet should allocate (GetPreferredAllocation). Pure; the answer does not depend on
// the order of the input.
//
//   undivided GPUs                 by topology score (align(), below)
//   several slots under MPS        all on one device when they fit (best fit: the fullest that still fits), else on as
//                                  few devices as possible, because one process can use MPS on one of them only
//                                  (under `split: span` each more costs SMs: docs/guide/share-sizes.md). A device whose
//                                  MPS server has all its clients comes last: Allocate would refuse it
//   everything else                NVIDIA's rule, a slot at a time: the device with the fewest (`distributed`) or most
//                                  (`packed`) slots taken, then the one picked least in this call. If these are equal,
//                                  as always for MIG devices with one slot each: the same for the parent GPU, then
//                                  driver order.
//
// WSL and Tegra have neither topology nor policy: always `distributed`, as NVIDIA's plugin.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "config/model.h"
#include "gpu/inventory/inventory.h"
#include "grants/allocate/grant.h"
#include "plan/plan.h"

namespace tranche::grants {

// Chooses undivided GPUs: the set of `size` GPUs that NVIDIA's best-effort policy would choose, found by
// dynamic programming over subsets instead of by listing partitions (16 GPUs: milliseconds instead of seconds).
//
// The rule: score a pair by PCIe distance (10…60) plus 100 per NVLink that joins them; split all available GPUs into
// sets of `size` (the last may be smaller) so that the sum of all pair scores inside sets is highest; from such a split
// take the best set that holds all required GPUs. So a pair stays whole while other GPUs are available. Pure.
int pair_score(const gpu::GpuLink& link);

// Positions are indices into inventory.gpus. `required` ⊆ `available`, required.size() <= size <= available.size().
// The answer is sorted. Ties go to the lowest positions. Beyond 16 available GPUs the set is grown greedily.
std::vector<std::uint32_t> align(const gpu::Inventory& inventory, std::span<const std::uint32_t> available,
                                 std::span<const std::uint32_t> required, std::uint32_t size);

// result ⊆ available ∪ must_include, ⊇ must_include, exactly `size` long; an Error if that is impossible. Ids that the
// resource does not have are ignored in `available` (kubelet's list may be older than the plan) and an Error in
// `must_include` (Allocate would refuse them).
Result<std::vector<std::string>> prefer(const plan::PlannedResource& resource, const gpu::Inventory& inventory,
                                        std::span<const std::string_view> available,
                                        std::span<const std::string_view> must_include, std::uint32_t size,
                                        config::AllocationPolicy policy, const Around& around = {});

}  // namespace tranche::grants
