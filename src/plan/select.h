#pragma once
// Selects devices: the GPUs that the node uses at all (`devices`); which of their devices belong to which resource
// before sharing is applied, by NVIDIA's default rules and the MIG strategy; and those that an entry of the sharing
// sections names. Every configuration for which NVIDIA's plugin exits is a Problem. Pure.
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/problem.h"
#include "config/model.h"
#include "gpu/inventory/inventory.h"
#include "plan/plan.h"

namespace tranche::plan {

// The inventory without the GPUs that the filter excludes; Inventory::set_aside lists them with the reason. Agents and
// `tranche plan` apply it to every inventory first, so that slots, labels, health and metrics agree.
gpu::Inventory keep_gpus(const config::DeviceFilter& filter, const gpu::Inventory& inventory);

// Whether a pattern of `devices` matches this GPU: its UUID, PCI address, index, or a model with *.
bool names_gpu(std::string_view pattern, const gpu::Gpu& gpu);

// Whether claims have this GPU, so that the device plugin does not (`dra.devices`).
bool is_for_claims(const config::Dra& dra, const gpu::Gpu& gpu);

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

// Whether a reference of an entry names this device: its index, UUID, or for a MIG device also those of its GPU.
bool names_device(std::string_view reference, const Candidate& candidate);

}  // namespace tranche::plan
