#pragma once
// Inventories and configurations for tests.
#include <cstdint>
#include <cstdio>
#include <string>

#include "config/model.h"
#include "gpu/inventory/inventory.h"

namespace tranche::make {

inline std::string uuid(std::uint32_t index) {
  char text[64];
  std::snprintf(text, sizeof text, "GPU-%08u-aaaa-bbbb-cccc-dddddddddddd", index);
  return text;
}

struct Model {
  std::string name = "NVIDIA H200";
  Bytes memory = mib(143771);
  gpu::ComputeCapability compute_capability{9, 0};
  std::uint32_t sm_count = 132;
};
inline const Model kA100{"NVIDIA A100-SXM4-80GB", mib(81920), {8, 0}, 108};

inline gpu::Inventory gpus(std::uint32_t count, const Model& model = {}) {
  gpu::Inventory inventory;
  inventory.driver_version = "580.159.04";
  inventory.cuda_driver_version = 13000;
  for (std::uint32_t i = 0; i < count; ++i) {
    gpu::Gpu gpu;
    gpu.uuid = uuid(i);
    gpu.index = gpu.minor = i;
    gpu.name = model.name;
    gpu.memory = model.memory;
    gpu.compute_capability = model.compute_capability;
    gpu.sm_count = model.sm_count;
    inventory.gpus.push_back(gpu);
  }
  return inventory;
}

// A MIG device more of a GPU, in its order.
inline gpu::MigDevice& add_mig(gpu::Gpu& gpu, const std::string& profile, std::uint32_t slices = 1) {
  gpu.mig_capable = gpu.mig_enabled = true;
  gpu::MigDevice mig;
  mig.slot = static_cast<std::uint32_t>(gpu.mig_devices.size());
  mig.uuid = "MIG-" + std::to_string(gpu.index) + std::to_string(mig.slot);
  mig.profile = profile;
  mig.memory = mib(16384);
  mig.gi_slices = mig.ci_slices = slices;
  mig.gi_cap = 12;
  mig.ci_cap = 13;
  return gpu.mig_devices.emplace_back(mig);
}

// One resource in `replicas` slots.
inline config::Config shared(config::SharingStrategy strategy, std::uint32_t replicas,
                             const std::string& name = "nvidia.com/gpu") {
  config::Config config;
  config.sharing.strategy = strategy;
  config::SharedResource entry;
  entry.name = name;
  entry.replicas = replicas;
  config.sharing.resources = {entry};
  return config;
}

}  // namespace tranche::make
