#pragma once
// Inside allocate/: the part of an answer that concerns MPS. Whether the slots may go together, their limits, the
// endpoint, and the variables by which honest clients and frameworks keep to their limits. Pure.
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
// Of several devices each figure is the smallest: a process has one fraction for all that it sees. A figure that is not
// known is left out. Where the pool is joined, so are all figures: the answers of one container must not contradict
// each other (Around::pool_is_joined).
void put_framework_environment(Grant& grant, const std::vector<Held>& held, const Around& around);

}  // namespace tranche::allocate
