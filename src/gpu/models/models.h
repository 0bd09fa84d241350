#pragma once
// The known GPU models, for plans without a node (`tranche plan --inventory 8xH200`, `tranche mig plan --inventory
// 2xA30`) and for what a driver does not show of MIG. data/gpus has the figures, which the stand-ins read, too;
// docs/internals/mig-tables.md has the sources of the profiles. Pure.
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gpu/inventory/inventory.h"
#include "gpu/mig/state.h"

namespace tranche::gpu {

struct GpuModel {
  std::string_view key;             // "A100-SXM4-40GB"
  std::string_view name;            // "NVIDIA A100-SXM4-40GB", as the driver reports it
  std::uint32_t pci_device_id = 0;  // 0xDDDDVVVV
  std::uint32_t memory_mib = 0;
  ComputeCapability compute_capability;
  std::uint32_t sm_count = 0;  // 0: not known, the model is for MIG alone
  std::uint32_t pci_class = 0;
  std::uint32_t memory_slices = 0;     // the grid of placements: 8, 4 or 12
  std::vector<mig::Profile> profiles;  // the smallest first; empty: without MIG
};

std::span<const GpuModel> gpu_models();
std::span<const GpuModel> mig_models();            // those with MIG
const GpuModel* find_model(std::string_view key);  // nullptr = unknown
// Of a GPU here that has MIG: by PCI device number, else by name. nullptr = not in the tables.
const GpuModel* model_of(std::uint32_t pci_device_id, std::string_view name);
// The remedy for an unknown name: "did you mean H200?" or the list. mig: of the models with MIG.
std::string known_models(std::string_view key, bool mig = false);
// Whether the text has the form "8xMODEL", or is a model alone.
bool names_model(std::string_view text);

// "8xMODEL" or "MODEL": 1 to 16 identical GPUs. Errors: kInvalid, with the models that there are.
Result<Inventory> inventory_of_model(std::string_view text);  // without NVLinks, driver 580.159.04 and CUDA 13.0
Result<std::vector<mig::GpuState>> simulated_node(std::string_view text);  // MIG off

// Adds what the driver does not show of a GPU: one older than 550 lists no profiles while MIG is off, and a process
// without permission gets no placements.
void complete_profiles(mig::GpuState& gpu);

}  // namespace tranche::gpu
