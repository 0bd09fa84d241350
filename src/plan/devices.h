#pragma once
// Inside plan/: which devices stand behind which resource before anything is shared, by NVIDIA's default rules and the
// MIG strategy. Every configuration that NVIDIA's plugin ends for is a Problem here.
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
  const inventory::Gpu* gpu = nullptr;  // lives as long as the inventory; nullptr on Tegra, which lists none
};

struct BaseResources {
  std::map<std::string, std::vector<Candidate>> by_name;
  std::vector<LeftOut> left_out;
  std::vector<Problem> problems;
};

std::string mig_resource(std::string profile);  // "1g.18gb+me" → "nvidia.com/mig-1g.18gb.me"

BaseResources base_resources(const config::Config& config, const inventory::Inventory& inventory);

std::string name_of(const inventory::Gpu& gpu);                  // "GPU 2 (GPU-…)"
std::string list_of(const std::vector<std::uint32_t>& indices);  // "GPU 0", "GPUs 0-3", "GPUs 0, 2 and 5-7"

}  // namespace tranche::plan
