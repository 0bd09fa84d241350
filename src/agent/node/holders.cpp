#include <map>

#include "agent/node/reports.h"
#include "plan/shares.h"
#include "plan/slot_id.h"

namespace tranche::agent {
namespace {

const plan::PlannedDevice* find_device(const plan::PlannedResource& resource, std::string_view uuid) {
  for (const auto& device : resource.devices) {
    if (device.uuid == uuid) return &device;
  }
  return nullptr;
}

}  // namespace

std::vector<Holder> holders(const Snapshot& snapshot) {
  std::vector<Holder> found;
  for (const auto& holding : snapshot.holdings) {
    const auto* resource = plan::find_resource(snapshot.plan, holding.resource);
    if (resource == nullptr) continue;  // another vendor's, or one that is no longer advertised
    Holder holder{holding.pod_namespace, holding.pod, holding.container, holding.resource, holding.slots, {}, {}};
    std::map<std::string_view, std::uint32_t> held;
    for (const auto& slot : holding.slots) ++held[plan::device_of(slot)];
    bool mps = false;
    for (const auto& [uuid, slots] : held) {
      allocate::GrantLimit limit{std::string(uuid), slots, {}};
      if (const auto* device = find_device(*resource, uuid); device != nullptr && !device->pool.empty()) {
        mps = true;
        limit.limits = plan::share_of(device->memory, device->sm_count, device->compute_capability, slots,
                                      device->slots, snapshot.config.config.sharing.sm_rounding);
      }
      holder.devices.push_back(std::move(limit));
    }
    if (mps) holder.grant = allocate::grant_id(holding.slots);
    found.push_back(std::move(holder));
  }
  return found;
}

}  // namespace tranche::agent
