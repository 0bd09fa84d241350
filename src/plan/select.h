#pragma once
// Selects devices: the GPUs that the node uses at all (`devices`), and those that an entry of the sharing sections
// names. Pure.
#include <string_view>

#include "config/model.h"
#include "gpu/inventory/inventory.h"
#include "plan/devices.h"

namespace tranche::plan {

// The inventory without the GPUs that the filter excludes; Inventory::set_aside lists them with the reason. Agents and
// `tranche plan` apply it to every inventory first, so that slots, labels, health and metrics agree.
gpu::Inventory keep_gpus(const config::DeviceFilter& filter, const gpu::Inventory& inventory);

// Whether a pattern of `devices` matches this GPU: its UUID, PCI address, index, or a model with *.
bool names_gpu(std::string_view pattern, const gpu::Gpu& gpu);

// Whether claims have this GPU, so that the device plugin does not (`dra.devices`).
bool is_for_claims(const config::Dra& dra, const gpu::Gpu& gpu);

// Whether a reference of an entry names this device: its index, UUID, or for a MIG device also those of its GPU.
bool names_device(std::string_view reference, const Candidate& candidate);

}  // namespace tranche::plan
