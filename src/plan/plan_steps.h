#pragma once
// Inside plan/: the steps from a configuration and the devices of each resource (select.h) to a plan. Contradictions
// (a GPU in two entries, slots below the driver's minimum) are Problems. Pure.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/model.h"
#include "gpu/inventory/inventory.h"
#include "plan/plan.h"
#include "plan/select.h"

namespace tranche::plan {

// A Problem of a field of an entry: "sharing.mps.resources[0].replicas".
Problem entry_problem(const config::Config& config, const config::SharedResource& entry, std::string_view field,
                      std::string what, std::string remedy, Severity severity = Severity::kError);

// Clients: how many (CUDA contexts; a process has at least one) one MPS server accepts on a device.
// 16 before Volta; 48 from compute capability 7.0 on (measured on an H200: 48 of 64 run); 60 from CUDA 13.1 on; on a
// MIG device, the fraction of that which its compute instance is of the GPU (NVIDIA's MIG guide). All with the default
// of two hardware queues per client: a tenant that raises CUDA_DEVICE_MAX_CONNECTIONS lowers the number for all
// tenants.

std::uint32_t driver_client_capacity(gpu::ComputeCapability capability, int cuda_driver_version);
// `slices` of the GPU's `all_slices`; at least 1.
std::uint32_t mig_client_capacity(std::uint32_t whole, std::uint32_t slices, std::uint32_t all_slices);

// The driver's known limit on this device.
std::uint32_t known_client_capacity(const gpu::Inventory& inventory, const gpu::Gpu& gpu, const PlannedDevice& device);
// The same, or sharing.mps.maxClients if set.
std::uint32_t client_capacity_of(const config::Config& config, const gpu::Inventory& inventory, const gpu::Gpu& gpu,
                                 const PlannedDevice& device);

// Pools: one per device that MPS serves (a GPU, or a MIG device), or per entry whose containers may hold slots of
// several GPUs; their names are stable over restarts and reboots.

// "gpu-" (or "mig-") and the first eight hexadecimal digits of each UUID, or as many more as are needed to make them
// unique; in the order of the input.
std::vector<std::string> pool_ids(const std::vector<std::string>& uuids);

// "set-" and eight hexadecimal digits of a hash of the UUIDs, in any order: a different set of GPUs is a different
// pool.
std::string set_id(std::vector<std::string> uuids);

// A resource under construction, and its entry; nullptr = not shared, or for claims.
struct Draft {
  PlannedResource resource;
  const config::SharedResource* entry = nullptr;
};
using Drafts = std::vector<Draft>;

// The resources of the devices that have a name before sharing: those of each entry of the sharing sections, and one
// of the devices without an entry.
void plan_resource(const config::Config& config, const gpu::Inventory& inventory, const std::string& name,
                   std::vector<Candidate>& candidates, BaseResources& base, Drafts& drafts,
                   std::vector<std::string>& notes);

// Pools for the devices that MPS serves, by id; sets the pool id of its devices. The GPUs of an entry with
// SplitPolicy::kSpan are one pool, and so are those of entries with the same name pattern, and those for claims.
std::vector<PlannedPool> make_pools(const config::Config& config, const gpu::Inventory& inventory, Drafts& drafts);

// Notes: sentences on the effective shares: roundings, hazards, settings without effect. Equal GPUs have one sentence
// in common.

// Notes that slotMemory yields fewer, clearly larger slots, because one more slot would be slightly smaller than
// requested.
void note_larger_slots(const config::SharedResource& entry, const std::vector<Candidate>& candidates,
                       std::vector<std::string>& notes);

void add_notes(const config::Config& config, const gpu::Inventory& inventory, Plan& plan);

}  // namespace tranche::plan
