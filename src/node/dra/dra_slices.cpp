#include "node/dra/dra_slices.h"

#include <algorithm>

namespace tranche::node {
namespace {

std::map<std::string, gpu::Unhealthy> gpu_faults(const NodeView& node) {
  auto faults = node.decision.faults.devices;
  if (!node.in.inventory || node.in.driver_problem.empty()) return faults;
  for (const auto& gpu : node.in.inventory->gpus)
    faults.try_emplace(gpu.uuid, gpu::Unhealthy{gpu::Cause::kDriver, node.in.driver_problem});
  return faults;
}

void add_pool_faults(const NodeView& node, std::vector<dra::Device>& devices) {
  for (const auto& pool : node.decision.plan.pools) {
    const auto down = node.decision.faults.pools.find(pool.id);
    if (down == node.decision.faults.pools.end()) continue;
    for (dra::Device& device : devices)
      if (device.kind == dra::Kind::kShared && !device.fault &&
          std::ranges::find(pool.devices, device.gpu_uuid) != pool.devices.end())
        device.fault = gpu::Unhealthy{gpu::Cause::kPool, down->second};
  }
}

}  // namespace

dra::Devices dra_devices(const NodeView& node) {
  if (!node.in.inventory) return {};
  auto devices = dra::devices_of(node.in.config.config, *node.in.inventory, gpu_faults(node), node.in.partitionable);
  add_pool_faults(node, devices.list);
  return devices;
}

}  // namespace tranche::node
