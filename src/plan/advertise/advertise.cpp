#include "plan/advertise/advertise.h"

#include <algorithm>

namespace tranche::plan {

std::optional<gpu::Unhealthy> fault_of(const plan::PlannedDevice& device, const Faults& faults) {
  for (const auto& uuid : {device.uuid, device.gpu_uuid})
    if (const auto it = faults.devices.find(uuid); it != faults.devices.end()) return it->second;
  const auto it = device.pool.empty() ? faults.pools.end() : faults.pools.find(device.pool);
  if (it == faults.pools.end()) return std::nullopt;
  return gpu::Unhealthy{gpu::Cause::kPool, it->second};
}

std::vector<Advertised> advertise(const plan::Plan& plan, const Faults& faults, const Withheld& withheld) {
  std::vector<Advertised> lists;
  lists.reserve(plan.resources.size());
  for (const auto& resource : plan.resources) {
    std::vector<AdvertisedSlot> slots;
    for (const auto& device : resource.devices) {
      const bool healthy = !fault_of(device, faults);
      for (auto& id : plan::slot_ids(device)) slots.push_back({std::move(id), healthy, device.numa_node});
    }
    lists.push_back({resource.name, std::move(slots)});
  }
  for (const auto& [resource, slots] : withheld) {
    auto list = std::ranges::lower_bound(lists, resource, {}, &Advertised::resource);
    if (list == lists.end() || list->resource != resource) list = lists.insert(list, Advertised{resource, {}});
    auto left = slots;
    std::vector<AdvertisedSlot> all = list->slots;
    for (auto& slot : all) slot.healthy = left.erase(slot.id) == 0 && slot.healthy;
    for (const auto& [id, why] : left) all.push_back({id, false, std::nullopt});
    list->slots = std::move(all);
  }
  return lists;
}

const std::string* reason_withheld(const Withheld& withheld, const std::string& resource, const std::string& slot) {
  const auto slots = withheld.find(resource);
  if (slots == withheld.end()) return nullptr;
  const auto found = slots->second.find(slot);
  return found == slots->second.end() ? nullptr : &found->second;
}

}  // namespace tranche::plan
