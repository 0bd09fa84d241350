#pragma once
// Private to allocate/: the MPS part of an answer. It decides whether the slots may be allocated together, their
// limits, the endpoint, and the variables by which clients and frameworks keep to their limits by themselves. Pure.
#include <vector>

#include "grants/allocate/grant.h"

namespace tranche::grants {

// The requested slots of one device.
struct DeviceSlots {
  const plan::PlannedDevice* device = nullptr;
  std::uint32_t slots = 0;
};

Status check_sharing(const plan::PlannedResource& resource, const std::vector<DeviceSlots>& held, std::size_t asked,
                     const Around& around);

// Writes grant.devices, which are those of `held`.
void put_limits(Grant& grant, const std::vector<DeviceSlots>& held);
Status check_limits(const plan::PlannedResource& resource, const Grant& grant, const std::vector<DeviceSlots>& held,
                    const Around& around);
Status put_mps(Grant& grant, const std::vector<DeviceSlots>& held, const Settings& settings, const Around& around);
// For several devices, each figure is the smallest, because a process has one fraction for all devices that it sees. A
// figure that is not known is left out. In a joined pool all figures are left out, because the answers for one
// container must not contradict each other (Around::pool_is_joined).
void put_framework_environment(Grant& grant, const std::vector<DeviceSlots>& held, const Around& around);

}  // namespace tranche::grants
