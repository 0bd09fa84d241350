#include "plan/advertise/advertise.h"

#include "plan/slot_id.h"

namespace tranche::advertise {

std::optional<std::string> reason_unhealthy(const plan::PlannedDevice& device, const Faults& faults) {
  if (const auto it = faults.devices.find(device.uuid); it != faults.devices.end()) return it->second;
  if (const auto it = faults.devices.find(device.gpu_uuid); it != faults.devices.end()) return it->second;
  if (!device.pool.empty()) {
    if (const auto it = faults.pools.find(device.pool); it != faults.pools.end()) return it->second;
  }
  return std::nullopt;
}

std::vector<Advertised> advertise(const plan::Plan& plan, const Faults& faults) {
  std::vector<Advertised> lists;
  lists.reserve(plan.resources.size());
  for (const auto& resource : plan.resources) {
    std::vector<AdvertisedSlot> slots;
    for (const auto& device : resource.devices) {
      const bool healthy = !reason_unhealthy(device, faults);
      for (auto& id : plan::slot_ids(device)) slots.push_back({std::move(id), healthy, device.numa_node});
    }
    lists.push_back({resource.name, std::move(slots)});
  }
  return lists;
}

}  // namespace tranche::advertise
