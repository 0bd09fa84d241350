#pragma once
// Nodes and configurations for the tests of this folder.
#include <string>

#include "labels/label.h"
#include "make.h"
#include "plan/plan.h"

namespace tranche::labels {

inline gpu::Inventory node(std::uint32_t count) {
  auto inventory = make::gpus(count);
  for (auto& gpu : inventory.gpus) gpu.mig_capable = true;
  return inventory;
}

inline config::Config shared(config::SharingStrategy strategy, std::uint32_t replicas, bool rename = false,
                             const std::string& name = "nvidia.com/gpu") {
  auto config = make::shared(strategy, replicas, name);
  if (rename) config.sharing.resources[0].rename = name + ".shared";
  return config;
}

inline Labels labels_of(const config::Config& config, const gpu::Inventory& inventory, const Inputs& inputs = {}) {
  return labels_for(config, inventory, plan::make_plan(config, inventory).value_or(plan::Plan{}), inputs);
}

}  // namespace tranche::labels
