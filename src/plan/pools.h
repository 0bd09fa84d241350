#pragma once
// Inside plan/: one pool per GPU that MPS serves, with names that stay the same over restarts and reboots.
#include <string>
#include <string_view>
#include <vector>

#include "config/model.h"
#include "inventory/inventory.h"
#include "plan/plan.h"

namespace tranche::plan {

// "gpu-" and the first eight hexadecimal digits of each UUID, or as many more as tell the UUIDs apart; in the order of
// the input.
std::vector<std::string> pool_ids(const std::vector<std::string>& uuids);

// The driver's ceiling: 48 clients for one server from compute capability 7.5 on, 16 before (NVIDIA's rule, which puts
// Volta with the older ones).
std::uint32_t max_clients(inventory::ComputeCapability capability);

// Pools for the devices of `resources` that MPS serves; enters each pool's id into its device.
std::vector<PlannedPool> make_pools(const config::Config& config, const inventory::Inventory& inventory,
                                    std::vector<PlannedResource>& resources);

}  // namespace tranche::plan
