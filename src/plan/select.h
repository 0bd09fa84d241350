#pragma once
// Which devices are meant: the GPUs that a node works with at all (`devices`), and those that an entry of the sharing
// sections names. Pure.
#include <string_view>

#include "config/model.h"
#include "gpu/inventory/inventory.h"
#include "plan/devices.h"

namespace tranche::plan {

// The inventory without the GPUs that the filter leaves out; who and why stands in Inventory::set_aside. Agents and
// `tranche plan` take it in where the inventory comes in, so that slots, labels, health and metrics agree.
inventory::Inventory keep_gpus(const config::DeviceFilter& filter, const inventory::Inventory& inventory);

// Whether a pattern of `devices` is this GPU: its UUID, PCI address, index, or a model with *.
bool names_gpu(std::string_view pattern, const inventory::Gpu& gpu);

// Whether a reference of an entry is this device: its index, UUID, or for a MIG device also those of its GPU.
bool names_device(std::string_view reference, const Candidate& candidate);

}  // namespace tranche::plan
