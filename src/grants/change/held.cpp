#include "grants/change/held.h"

#include <algorithm>

#include "plan/slot_id.h"

namespace tranche::grants {

using config::SharingStrategy;
using plan::PlannedDevice;

SharingMode mode_of(const PlannedDevice& device) {
  if (!device.pool.empty()) return {SharingStrategy::kMps, device.pool};
  return {device.replicated ? SharingStrategy::kTimeSlicing : SharingStrategy::kNone, {}};
}

SharingMode mode_of(const HeldShare& share) {
  if (!share.pool.empty()) return {SharingStrategy::kMps, share.pool};
  const bool divided = !share.slots.empty() && plan::device_of(share.slots.front()) != share.slots.front();
  return {divided ? SharingStrategy::kTimeSlicing : SharingStrategy::kNone, {}};
}

const PlannedDevice* find_device(const plan::PlannedResource& resource, std::string_view uuid) {
  const auto found = std::ranges::find(resource.devices, uuid, &PlannedDevice::uuid);
  return found == resource.devices.end() ? nullptr : &*found;
}

const PlannedDevice* find_device(const plan::Plan& plan, std::string_view resource, std::string_view uuid) {
  const auto* found = plan::find_resource(plan, resource);
  return found == nullptr ? nullptr : find_device(*found, uuid);
}

const PlannedDevice* find_device(const plan::Plan& plan, std::string_view uuid) {
  for (const auto& resource : plan.resources)
    if (const auto* device = find_device(resource, uuid)) return device;
  return nullptr;
}

bool is_slot_of(const PlannedDevice& device, std::string_view id) {
  const auto slot = plan::parse_slot_id(id);
  return slot && slot->uuid == device.uuid && slot->ordinal.has_value() == device.replicated &&
         slot->ordinal.value_or(0) < device.slots;
}

}  // namespace tranche::grants
