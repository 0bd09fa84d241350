#pragma once
// Inside plan/: how many clients (CUDA contexts; a process has at least one) one MPS server accepts on a device, and
// Problems for configurations that exceed it. Pure.
//
// 16 before Volta; 48 from compute capability 7.0 on (measured on an H200: 48 of 64 run); 60 from CUDA 13.1 on; on a
// MIG device, the fraction of that which its compute instance is of the GPU (NVIDIA's MIG guide). All with the default
// of two hardware queues per client: a tenant that raises CUDA_DEVICE_MAX_CONNECTIONS lowers the number for all
// tenants.
#include <cstdint>
#include <vector>

#include "base/problem.h"
#include "config/model.h"
#include "gpu/inventory/inventory.h"
#include "plan/devices.h"
#include "plan/entries.h"

namespace tranche::plan {

std::uint32_t driver_client_capacity(inventory::ComputeCapability capability, int cuda_driver_version);
// `slices` of the GPU's `all_slices`; at least 1.
std::uint32_t mig_client_capacity(std::uint32_t whole, std::uint32_t slices, std::uint32_t all_slices);

// The driver's known limit on this device.
std::uint32_t known_client_capacity(const inventory::Inventory& inventory, const inventory::Gpu& gpu,
                                    const PlannedDevice& device);
// The same, or sharing.mps.maxClients if set.
std::uint32_t client_capacity_of(const config::Config& config, const inventory::Inventory& inventory,
                                 const inventory::Gpu& gpu, const PlannedDevice& device);

// A Problem for the first device on which the slots of an entry need more clients than the server accepts. If a
// container may hold several slots, slots are units: up to kMostUnits per device, and running clients are counted
// instead.
void check_client_capacity(const config::Config& config, const inventory::Inventory& inventory, const Taken& taken,
                           std::vector<Problem>& problems);

}  // namespace tranche::plan
