#pragma once
// Nodes and configurations for the tests of this folder.
#include <string>

#include "labels/label.h"
#include "make.h"
#include "plan/make_plan.h"

namespace tranche::labels {

inline inventory::Inventory node(std::uint32_t count) {
  auto inventory = make::gpus(count);
  for (auto& gpu : inventory.gpus) gpu.mig_capable = true;
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
  auto config = make::shared(strategy, replicas, name);
  if (rename) config.sharing.resources[0].rename = name + ".shared";
  return config;
}

inline Labels labels_of(const config::Config& config, const inventory::Inventory& inventory,
                        const Inputs& inputs = {}) {
  return labels_for(config, inventory, plan::make_plan(config, inventory).value_or(plan::Plan{}), inputs);
}

}  // namespace tranche::labels
