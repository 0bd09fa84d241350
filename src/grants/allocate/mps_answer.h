#pragma once
// Inside allocate/: the part of an answer that concerns MPS. Whether the slots may go together, their limits, the
// endpoint, and the variables by which honest clients keep to their limits. Pure.
#include <vector>

#include "grants/allocate/grant.h"

namespace tranche::allocate {

// The slots asked for on one device.
struct Held {
  const plan::PlannedDevice* device = nullptr;
  std::uint32_t slots = 0;
};

Status check_sharing(const plan::PlannedResource& resource, const std::vector<Held>& held, std::size_t asked,
                     const Around& around);

// Into grant.devices, which are those of `held`.
void put_limits(Grant& grant, const std::vector<Held>& held);
Status check_limits(const plan::PlannedResource& resource, const Grant& grant, const std::vector<Held>& held,
                    const Around& around);
Status put_mps(Grant& grant, const std::vector<Held>& held, const Settings& settings, const Around& around);

}  // namespace tranche::allocate
