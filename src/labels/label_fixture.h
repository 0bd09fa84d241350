#pragma once
// Nodes and configurations for the tests of this folder.
#include <string>

#include "labels/label.h"
#include "plan/make_plan.h"

namespace tranche::label {

inline inventory::Inventory node(std::uint32_t count) {
  inventory::Inventory inventory;
  inventory.driver_version = "580.159.04";
  inventory.cuda_driver_version = 13000;
  for (std::uint32_t i = 0; i < count; ++i) {
    inventory::Gpu gpu;
    gpu.uuid = "GPU-" + std::to_string(i);
    gpu.index = i;
    gpu.name = "NVIDIA H200";
    gpu.memory = {150754820096};
    gpu.compute_capability = {9, 0};
    gpu.mig_capable = true;
    inventory.gpus.push_back(gpu);
  }
  return inventory;
}

inline void add_mig(inventory::Gpu& gpu, const std::string& profile) {
  gpu.mig_enabled = true;
  inventory::MigDevice mig;
  mig.uuid = gpu.uuid + "-" + std::to_string(gpu.mig_devices.size());
  mig.profile = profile;
  mig.memory = mib(16384);
  mig.sm_count = 16;
  mig.gi_slices = mig.ci_slices = 1;
  mig.engines = {1, 2, 3, 4, 5};
  gpu.mig_devices.push_back(mig);
}

inline config::Config shared(config::SharingStrategy strategy, std::uint32_t replicas, bool rename = false,
                             const std::string& name = "nvidia.com/gpu") {
  config::Config config;
  config.sharing.strategy = strategy;
  config::SharedResource entry;
  entry.name = name;
  entry.replicas = replicas;
  if (rename) entry.rename = name + ".shared";
  config.sharing.resources = {entry};
  return config;
}

inline Labels labels_of(const config::Config& config, const inventory::Inventory& inventory,
                        const Inputs& inputs = {}) {
  return labels_for(config, inventory, plan::make_plan(config, inventory).value_or(plan::Plan{}), inputs);
}

}  // namespace tranche::label
