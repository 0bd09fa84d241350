#pragma once
// Inside plan/: which devices belong to which resource before sharing is applied, by NVIDIA's default rules and the MIG
// strategy. Every configuration for which NVIDIA's plugin exits is a Problem here.
#include <map>
#include <string>
#include <vector>

#include "base/problem.h"
#include "config/model.h"
#include "gpu/inventory/inventory.h"
#include "plan/plan.h"

namespace tranche::plan {

struct Candidate {
  PlannedDevice device;
  const gpu::Gpu* gpu = nullptr;  // valid as long as the inventory; nullptr on Tegra, which lists none
};

struct BaseResources {
  std::map<std::string, std::vector<Candidate>> by_name;
  std::vector<LeftOut> left_out;
  std::vector<Problem> problems;
};

std::string mig_resource(std::string profile);  // "1g.18gb+me" → "nvidia.com/mig-1g.18gb.me"

BaseResources base_resources(const config::Config& config, const gpu::Inventory& inventory);

std::string list_of(const std::vector<std::uint32_t>& indices);  // "GPU 0", "GPUs 0-3", "GPUs 0, 2 and 5-7"

}  // namespace tranche::plan
