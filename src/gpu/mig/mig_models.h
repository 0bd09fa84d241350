#pragma once
// The MIG profiles of every GPU model that has MIG, for planning without the GPU. Where a driver lists profiles and
// placements, those count instead. data/gpus has the tables, docs/internals/mig-tables.md the source of each. Pure.
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gpu/mig/state.h"

namespace tranche::mig {

struct Model {
  std::string_view key;   // "A100-SXM4-40GB"
  std::string_view name;  // "NVIDIA A100-SXM4-40GB", as the driver reports it
  std::uint32_t pci_device_id = 0;
  std::uint32_t memory_mib = 0;
  gpu::ComputeCapability compute_capability;
  std::uint32_t memory_slices = 0;  // the grid of placements: 8, 4 or 12
  std::vector<Profile> profiles;    // the smallest first
};

const std::vector<Model>& models();
// By its key, as in "8xA100-SXM4-40GB".
const Model* find_model(std::string_view key);
// Of a GPU here: by PCI device number, else by name. nullptr = not in the tables.
const Model* model_of(std::uint32_t pci_device_id, std::string_view name);
// Adds what the driver does not show of a GPU: one older than 550 lists no profiles while MIG is off, and a process
// without permission gets no placements.
void complete_profiles(GpuState& gpu);

// "8xA100-SXM4-40GB": 1 to 16 equal GPUs, MIG off. Errors: kInvalid, with the models that there are.
Result<std::vector<GpuState>> simulated_node(std::string_view text);

}  // namespace tranche::mig
