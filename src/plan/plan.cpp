#include "plan/plan.h"

#include <algorithm>

namespace tranche::plan {
namespace {

using gpu::Platform;

Platform made_for(const PlannedDevice& device) {
  if (device.uuid == kWslDevice) return Platform::kWsl;
  return device.uuid == kTegraDevice ? Platform::kTegra : Platform::kNvml;
}

std::string why_stale(const PlannedDevice& device, const gpu::Inventory& inventory, config::MigStrategy strategy) {
  if (made_for(device) != inventory.platform)
    return "the node's platform is " + std::string(to_string(inventory.platform)) + " now";
  if (inventory.platform != Platform::kNvml) return {};
  const gpu::Gpu* gpu = gpu::find_gpu(inventory, device.gpu_uuid);
  if (gpu == nullptr) return "its GPU is not on this node any more";
  if (device.is_mig)
    return std::ranges::find(gpu->mig_devices, device.uuid, &gpu::MigDevice::uuid) != gpu->mig_devices.end()
               ? ""
               : "this MIG device does not exist any more";
  if (gpu->mig_enabled && strategy != config::MigStrategy::kNone) return "MIG was turned on for this GPU";
  return {};
}

}  // namespace

const PlannedResource* find_resource(const Plan& plan, std::string_view name) {
  const auto found = std::ranges::lower_bound(plan.resources, name, {}, &PlannedResource::name);
  return found != plan.resources.end() && found->name == name ? &*found : nullptr;
}

const PlannedPool* find_pool(const Plan& plan, std::string_view id) {
  const auto found = std::ranges::lower_bound(plan.pools, id, {}, &PlannedPool::id);
  return found != plan.pools.end() && found->id == id ? &*found : nullptr;
}

const PlannedDevice* find_device(const PlannedResource& resource, std::string_view uuid) {
  const auto found = std::ranges::find(resource.devices, uuid, &PlannedDevice::uuid);
  return found == resource.devices.end() ? nullptr : &*found;
}

const PlannedDevice* find_device(const Plan& plan, std::string_view resource, std::string_view uuid) {
  const auto* found = find_resource(plan, resource);
  return found == nullptr ? nullptr : find_device(*found, uuid);
}

const PlannedDevice* find_device(const Plan& plan, std::string_view uuid) {
  for (const auto& resource : plan.resources)
    if (const auto* device = find_device(resource, uuid)) return device;
  return nullptr;
}

std::uint64_t slots_of(const PlannedResource& resource) {
  std::uint64_t slots = 0;
  for (const auto& device : resource.devices) slots += device.slots;
  return slots;
}

std::map<std::string, std::string> stale_devices(const Plan& plan, const gpu::Inventory& inventory,
                                                 config::MigStrategy strategy) {
  std::map<std::string, std::string> stale;
  for (const PlannedResource& resource : plan.resources) {
    for (const PlannedDevice& device : resource.devices) {
      if (std::string why = why_stale(device, inventory, strategy); !why.empty())
        stale.emplace(device.uuid, why + ", and no plan fits what is there now");
    }
  }
  return stale;
}

}  // namespace tranche::plan
