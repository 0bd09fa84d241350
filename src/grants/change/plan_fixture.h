#pragma once
// Plans for tests of changes: GPUs of 100 GiB and 100 SMs, cut by hand.
#include <algorithm>
#include <string>
#include <vector>

#include "grants/change/change.h"
#include "plan/plan.h"
#include "plan/shares.h"

namespace tranche::grants::fixture {

inline constexpr const char* kGpu = "nvidia.com/gpu";

inline plan::PlannedDevice gpu(int index) {
  plan::PlannedDevice device;
  device.uuid = device.gpu_uuid = "GPU-" + std::to_string(index);
  device.index = std::to_string(index);
  device.memory = mib(102400);
  device.sm_count = 100;
  return device;
}

inline plan::PlannedDevice sliced(int index, std::uint32_t slots) {
  auto device = gpu(index);
  device.replicated = true;
  device.slots = slots;
  return device;
}

inline plan::PlannedDevice mps(int index, std::uint32_t slots, const std::string& pool = "") {
  auto device = sliced(index, slots);
  device.pool = pool.empty() ? "gpu-" + std::to_string(index) : pool;
  device.share = plan::share_of(device, 1);
  return device;
}

inline plan::PlannedResource named(const std::string& name, std::vector<plan::PlannedDevice> devices) {
  plan::PlannedResource resource;
  resource.name = resource.original_name = name;
  resource.devices = std::move(devices);
  for (const auto& device : resource.devices) resource.sharing = mode_of(device).strategy;
  return resource;
}

inline plan::Plan plan_of(std::vector<plan::PlannedResource> resources) {
  plan::Plan plan;
  plan.resources = std::move(resources);
  for (const auto& resource : plan.resources) {
    for (const auto& device : resource.devices) {
      if (device.pool.empty()) continue;
      auto pool = std::ranges::find(plan.pools, device.pool, &plan::PlannedPool::id);
      if (pool == plan.pools.end()) {
        plan.pools.push_back({});
        pool = std::prev(plan.pools.end());
        pool->id = device.pool;
      }
      pool->devices.push_back(device.uuid);
      pool->limits.push_back({device.uuid, device.share});
    }
  }
  std::ranges::sort(plan.pools, {}, &plan::PlannedPool::id);
  return plan;
}

inline plan::Plan all_mps(int gpus, std::uint32_t slots, const std::string& name = kGpu) {
  std::vector<plan::PlannedDevice> devices;
  for (int i = 0; i < gpus; ++i) devices.push_back(mps(i, slots));
  return plan_of({named(name, std::move(devices))});
}

inline plan::Plan all_sliced(int gpus, std::uint32_t slots) {
  std::vector<plan::PlannedDevice> devices;
  for (int i = 0; i < gpus; ++i) devices.push_back(sliced(i, slots));
  return plan_of({named(kGpu, std::move(devices))});
}

inline std::vector<std::string> texts_of(const std::vector<Step>& steps) {
  std::vector<std::string> texts;
  for (const auto& step : steps) texts.push_back(to_string(step));
  return texts;
}

// A container that was given these slots under this plan.
inline HeldShare held(const plan::Plan& plan, const std::string& resource, int index,
                      const std::vector<std::uint32_t>& ordinals) {
  const auto* device = find_device(*plan::find_resource(plan, resource), "GPU-" + std::to_string(index));
  HeldShare share{resource, device->uuid, {}, device->pool, {}};
  if (!device->replicated) share.slots.push_back(device->uuid);
  for (const auto n : ordinals) share.slots.push_back(device->uuid + "::" + std::to_string(n));
  if (!device->pool.empty()) share.memory = plan::share_of(*device, static_cast<std::uint32_t>(ordinals.size())).memory;
  return share;
}

}  // namespace tranche::grants::fixture
