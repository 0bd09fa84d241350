#pragma once
// Which of the available slots kubelet should hand out (GetPreferredAllocation): a hint, so it must be fast and never
// wrong. Divided devices: all on one device when they fit (best fit: the fullest that still fits), else as few devices
// as possible; `distributed` and `packed` differ only in the comparator. Undivided GPUs: by topology score. Pure; the
// answer does not depend on input order.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "config/model.h"
#include "inventory/inventory.h"
#include "plan/plan.h"

namespace tranche::allocate {

// result ⊆ available, ⊇ must_include, exactly `size` long; an Error when that cannot be.
Result<std::vector<std::string>> prefer(const plan::PlannedResource& resource, const inventory::Inventory& inventory,
                                        std::span<const std::string> available,
                                        std::span<const std::string> must_include, std::uint32_t size,
                                        config::AllocationPolicy policy);

}  // namespace tranche::allocate
