#pragma once
// For tests: GPUs in slots under MPS, in one pool.
#include <string>

#include "plan/plan.h"

namespace tranche::grants {

inline std::string uuid(int gpu) {
  return std::string("GPU-000000") + (gpu < 10 ? "0" : "") + std::to_string(gpu) + "-0000-4000-8000-000000000000";
}

inline std::string slot(int gpu, int ordinal) {
  return uuid(gpu) + "::" + std::to_string(ordinal);
}
inline plan::PlannedDevice h200(int gpu, std::uint32_t slots, const std::string& pool = "set-1") {
  plan::PlannedDevice device;
  device.uuid = device.gpu_uuid = uuid(gpu);
  device.index = std::to_string(gpu);
  device.replicated = true;
  device.slots = slots;
  device.memory = mib(143771);
  device.sm_count = 132;
  device.compute_capability = {9, 0};
  device.paths = {"/dev/nvidia" + std::to_string(gpu)};
  device.pool = pool;
  return device;
}

// `gpus` H200 under one name, one pool.
inline plan::PlannedResource joined(int gpus, std::uint32_t slots) {
  plan::PlannedResource resource;
  resource.name = resource.original_name = "nvidia.com/gpu";
  resource.sharing = config::SharingStrategy::kMps;
  resource.replicas = slots;
  resource.split = config::SplitPolicy::kSpan;
  for (int gpu = 0; gpu < gpus; ++gpu) resource.devices.push_back(h200(gpu, slots));
  return resource;
}

}  // namespace tranche::grants
