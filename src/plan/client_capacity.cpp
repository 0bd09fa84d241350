#include "plan/plan_steps.h"

#include <fmt/format.h>

#include <algorithm>

#include "config/keys.h"
#include "plan/shares.h"

namespace tranche::plan {
namespace {

using gpu::ComputeCapability;

constexpr ComputeCapability kVolta{7, 0};
constexpr int kCuda131 = 13010;
constexpr std::uint32_t kSlicesOfMost = 7;  // of every GPU with MIG except the A30, which has 4

std::string cuda_of(const gpu::Inventory& inventory) {
  if (inventory.cuda_driver_version == 0) return "";
  return fmt::format(" with CUDA {}.{}", inventory.cuda_driver_version / 1000,
                     inventory.cuda_driver_version % 1000 / 10);
}

std::string where_of(const gpu::Inventory& inventory, const Candidate& candidate) {
  const gpu::Gpu& gpu = *candidate.gpu;
  const auto capability = gpu.compute_capability;
  const std::string device =
      candidate.device.is_mig
          ? fmt::format("MIG device {} ({}), a part of {}", candidate.device.index, candidate.device.uuid, gpu.name)
          : fmt::format("{}, {} {}", name_of(gpu), gpu.name.starts_with("NVIDIA") ? "an" : "a", gpu.name);
  return fmt::format("{} of compute capability {}.{}{}", device, capability.major, capability.minor,
                     cuda_of(inventory));
}

}  // namespace

std::uint32_t driver_client_capacity(ComputeCapability capability, int cuda_driver_version) {
  if (capability < kVolta) return 16;
  return cuda_driver_version >= kCuda131 ? config::kMostClientsOfDrivers : 48;
}

std::uint32_t mig_client_capacity(std::uint32_t whole, std::uint32_t slices, std::uint32_t all_slices) {
  if (all_slices == 0) all_slices = kSlicesOfMost;
  return std::max<std::uint32_t>(1, whole * std::min(slices, all_slices) / all_slices);
}

std::uint32_t known_client_capacity(const gpu::Inventory& inventory, const gpu::Gpu& gpu, const PlannedDevice& device) {
  const std::uint32_t whole = driver_client_capacity(gpu.compute_capability, inventory.cuda_driver_version);
  const auto mig = std::ranges::find(gpu.mig_devices, device.uuid, &gpu::MigDevice::uuid);
  if (!device.is_mig || mig == gpu.mig_devices.end()) return whole;
  return mig_client_capacity(whole, mig->ci_slices, gpu.max_mig_devices);
}

std::uint32_t client_capacity_of(const config::Config& config, const gpu::Inventory& inventory, const gpu::Gpu& gpu,
                                 const PlannedDevice& device) {
  const std::uint32_t given = config.sharing.max_clients;
  return given != 0 ? given : known_client_capacity(inventory, gpu, device);
}

namespace {

// An error in the setting that causes too many slots; `what` reads on after "is 49" and "gives 140 slots".
Problem too_many(const config::Config& config, const config::SharedResource& entry, std::uint32_t slots,
                 const std::string& what, std::string remedy) {
  return entry_problem(config, entry, entry.slot_memory ? "slotMemory" : "replicas",
                       (entry.slot_memory ? fmt::format("gives {} slots", slots) : fmt::format("is {}", slots)) + what,
                       std::move(remedy));
}

std::string remedy_for(const config::SharedResource& entry, const PlannedDevice& device, std::uint32_t most) {
  if (!entry.slot_memory) return fmt::format("write replicas: {} or less", most);
  const Bytes all = divisible(device.memory, device.policy.reserve);
  return fmt::format("write slotMemory: {}Mi or more", (all.in_mib() + most - 1) / most);
}

}  // namespace

void check_client_capacity(const config::Config& config, const gpu::Inventory& inventory, const Taken& taken,
                           std::vector<Problem>& problems) {
  const config::SharedResource& entry = *taken.entry;
  const bool units = !one_slot_per_request(config, entry);
  const std::uint32_t each = config.sharing.processes_per_slot;
  for (const Candidate& candidate : taken.candidates) {
    const std::uint32_t slots = candidate.device.slots;
    if (units && slots <= kMostUnits) continue;
    if (units)
      return problems.push_back(
          too_many(config, entry, slots,
                   fmt::format(", and {} units of a device are the most that can be counted", kMostUnits) +
                       (entry.slot_memory ? " (" + name_of(*candidate.gpu) + ")" : ""),
                   remedy_for(entry, candidate.device, kMostUnits)));
    const std::uint32_t most = client_capacity_of(config, inventory, *candidate.gpu, candidate.device);
    const std::uint64_t wanted = std::uint64_t{slots} * each;
    if (wanted <= most) continue;
    std::string what;
    if (each > 1) what = fmt::format(", which with processesPerSlot: {} makes {} clients", each, wanted);
    what += config.sharing.max_clients != 0
                ? fmt::format(", but sharing.mps.maxClients allows {} on {}", most, name_of(*candidate.gpu))
                : fmt::format(", but MPS serves at most {} clients on {}", most, where_of(inventory, candidate));
    std::string remedy = most / each >= 2 ? remedy_for(entry, candidate.device, most / each)
                                          : std::string("share this device with sharing.timeSlicing");
    if (each > 1) remedy += fmt::format(", or processesPerSlot: {} or less", std::max(1u, most / slots));
    if (!entry.slot_memory && !candidate.device.is_mig && slots <= kMostUnits)
      remedy += ", or failRequestsGreaterThanOne: false where containers ask for several of these slots";
    return problems.push_back(too_many(config, entry, slots, what, std::move(remedy)));
  }
}

}  // namespace tranche::plan
