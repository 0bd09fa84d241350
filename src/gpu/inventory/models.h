#pragma once
// GPU models for plans without a node: `tranche plan --inventory 8xH200`. data/gpus has the figures, which the
// stand-ins read, too. Pure.
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "gpu/inventory/inventory.h"

namespace tranche::gpu {

struct GpuModel {
  std::string_view profile;  // "H100-SXM5-80GB"
  std::string_view name;     // "NVIDIA H100 80GB HBM3", as the driver reports it
  std::uint32_t memory_mib = 0;
  ComputeCapability compute_capability;
  std::uint32_t sm_count = 0;
  bool mig_capable = false;
  std::uint32_t pci_class = 0x030200;
};

std::span<const GpuModel> gpu_models();
const GpuModel* find_model(std::string_view profile);  // nullptr = unknown
// The remedy for an unknown name: "did you mean H200?" or the list.
std::string known_models(std::string_view profile);

inline constexpr std::uint32_t kMostModelGpus = 16;
struct CountedModel {
  std::uint32_t count = 1;  // any number above kMostModelGpus is one more than that
  std::string_view model;
};
// "8xMODEL" taken apart; absent if the text does not begin with a count and an x.
std::optional<CountedModel> counted_model(std::string_view text);

// Whether the text has the form "8xMODEL", or is a model alone.
bool names_model(std::string_view text);
// 1 to 16 identical GPUs, without NVLinks, with driver 580.159.04 and CUDA 13.0. Errors: kInvalid.
Result<Inventory> inventory_of_model(std::string_view text);

}  // namespace tranche::gpu
