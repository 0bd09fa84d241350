#include "dra/dra_devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "plan/select.h"
#include "plan/shares.h"

namespace tranche::dra {
namespace {

using gpu::Gpu;
using gpu::Inventory;

constexpr gpu::ComputeCapability kFirstWithLimits{7, 0};  // Volta: MPS has memory and SM limits from here on

std::string name_of(const Gpu& gpu, Kind kind) {
  const std::string whole = "gpu-" + std::to_string(gpu.index);
  return kind == Kind::kWhole ? whole : whole + "-" + std::string(to_string(kind));
}

Device device_of(const Inventory& inventory, const Gpu& gpu, Kind kind) {
  Device device;
  device.name = name_of(gpu, kind);
  device.kind = kind;
  device.gpu_uuid = gpu.uuid;
  device.index = gpu.index;
  device.memory = gpu.memory;
  device.sms = gpu.sm_count;
  device.compute_capability = gpu.compute_capability;
  device.product = gpu.name;
  device.pci_bus_id = gpu.pci_bus_id;
  device.pcie_root = gpu.pcie_root;
  device.numa_node = gpu.numa_node;
  device.driver_version = inventory.driver_version;
  device.cuda_driver_version = inventory.cuda_driver_version;
  return device;
}

// "" = the GPU can be shared by limits.
std::string why_not_shared(const Gpu& gpu, Bytes divisible) {
  if (gpu.memory.value == 0) return "the driver does not report its memory";
  if (gpu.compute_capability.major != 0 && gpu.compute_capability < kFirstWithLimits)
    return "MPS has no limits before compute capability 7.0";
  if (divisible < kMemoryLeast + kMemoryStep)
    return fmt::format("its memory without sharing.mps.reserve, {}, is less than the smallest share",
                       to_string(divisible));
  return "";
}

std::uint32_t cores_least(std::uint32_t sms) {
  return sms == 0 ? 1 : (plan::threads_for(plan::kFewestSms, sms).hundredths + 99) / 100;
}

// NVIDIA's runtime finds the nodes of a MIG device by itself; otherwise they must be named.
bool needs_nodes(const config::Flags& flags) {
  const auto& strategies = flags.plugin.device_list_strategy;
  return flags.plugin.pass_device_specs ||
         std::ranges::find(strategies, config::ListStrategy::kCdiCri) != strategies.end() ||
         std::ranges::find(strategies, config::ListStrategy::kCdiAnnotations) != strategies.end();
}

// "1g.18gb+me" → "1g18gbme"
std::string in_a_name(std::string profile) {
  std::erase_if(profile, [](char c) { return !((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')); });
  return profile;
}

void add_mig(const config::Config& config, const Inventory& inventory, const Gpu& gpu, const gpu::MigDevice& mig,
             Devices& devices) {
  if (!is_usable(config, mig)) {
    devices.notes.push_back(
        name_of(gpu, mig) +
        " is left out: the driver's table (/proc/driver/nvidia-caps/mig-minors) does not list which "
        "device nodes open it");
    return;
  }
  Device device = device_of(inventory, gpu, Kind::kMig);
  device.name =
      fmt::format("gpu-{}-mig-{}-{}-{}", gpu.index, in_a_name(mig.profile), mig.gpu_instance, mig.compute_instance);
  device.gpu_uuid = mig.uuid;
  device.parent_uuid = gpu.uuid;
  device.profile = mig.profile;
  device.engines = mig.engines;
  device.memory = mig.memory;
  device.sms = mig.sm_count;
  devices.list.push_back(std::move(device));
}

// The MIG devices that are there, without those that belong to a claim as long as it is prepared.
void add_present(const config::Config& config, const Inventory& inventory, const Gpu& gpu,
                 const Partitionable& partitionable, Devices& devices) {
  const std::string which = name_of(gpu);
  if (partitionable.making.contains(gpu.uuid))
    return devices.notes.push_back(which + ": a MIG device is being made for a claim");
  for (const auto& mig : gpu.mig_devices)
    if (!partitionable.made.contains(mig.uuid)) add_mig(config, inventory, gpu, mig, devices);
  if (gpu.mig_devices.empty()) devices.notes.push_back(which + " is in MIG mode and has no MIG devices");
}

void add_partitions(const Inventory& inventory, const Gpu& gpu, const PartitionableGpu& partitionable,
                    Devices& devices) {
  for (const auto& [profile, partition] : partitions_of(partitionable)) {
    Device device = device_of(inventory, gpu, Kind::kMig);
    device.name = fmt::format("gpu-{}-mig-{}-{}-{}", gpu.index, in_a_name(profile->name), profile->id,
                              partition.instance.place.start);
    device.parent_uuid = gpu.uuid;
    device.profile = profile->name;
    device.engines = profile->engines;
    device.memory = mib(profile->memory_mib);
    device.sms = profile->sm_count;
    device.partition = partition;
    devices.list.push_back(std::move(device));
  }
  if (!partitionable.foreign.empty())
    devices.notes.push_back(
        fmt::format("{} has {} MIG instances that were not made for claims: they are not offered, and take "
                    "their part from its partitions on demand",
                    name_of(gpu), partitionable.foreign.size()));
}

void add_in_mig_mode(const config::Config& config, const Inventory& inventory, const Gpu& gpu,
                     const Partitionable& partitionable, Devices& devices) {
  if (!is_for_partitions(config, gpu)) return add_present(config, inventory, gpu, partitionable, devices);
  const std::string which = name_of(gpu);
  if (!partitionable.known) return devices.notes.push_back(which + ": its MIG profiles are not read yet");
  if (!partitionable.why_not.empty()) {
    devices.notes.push_back(which + " is not partitioned on demand: " + partitionable.why_not);
    return add_present(config, inventory, gpu, partitionable, devices);
  }
  const auto found = partitionable.gpus.find(gpu.uuid);
  if (found == partitionable.gpus.end() || found->second.profiles.empty())
    return devices.notes.push_back(which + " is in MIG mode, and the driver lists no MIG profiles of it");
  add_partitions(inventory, gpu, found->second, devices);
}

void add_gpu(const config::Config& config, const Inventory& inventory, const Gpu& gpu,
             const Partitionable& partitionable, Devices& devices) {
  if (gpu.mig_enabled) return add_in_mig_mode(config, inventory, gpu, partitionable, devices);
  const std::string which = name_of(gpu);
  const Bytes divisible = plan::divisible(gpu.memory, plan::reserve_of(config.sharing.reserve, false));
  if (const std::string why = why_not_shared(gpu, divisible); why.empty()) {
    Device shared = device_of(inventory, gpu, Kind::kShared);
    shared.memory = divisible;
    shared.cores_least = cores_least(gpu.sm_count);
    devices.list.push_back(std::move(shared));
  } else {
    devices.notes.push_back(which + " is offered only as a whole: " + why);
  }
  devices.list.push_back(device_of(inventory, gpu, Kind::kWhole));
  devices.list.push_back(device_of(inventory, gpu, Kind::kMonitor));
}

constexpr std::string_view kSlice = "memory-slice-";
constexpr std::array kEngineNames{"copy-engines", "decoders", "encoders", "jpeg-engines", "ofa-engines"};

bool in_bounds(const mig::Placement& place) {
  return place.size > 0 && place.start < kMostMemorySlices && place.size <= kMostMemorySlices - place.start;
}

// A figure that is not known of each profile is not counted: a sum without the whole GPU's would refuse what fits.
Counters counters_of(const std::vector<mig::Profile>& profiles, const mig::Profile& profile,
                     const mig::Placement& place) {
  Counters counters;
  const auto add = [&](std::string name, std::uint64_t value) {
    if (value > 0) counters.emplace(std::move(name), value);
  };
  if (std::ranges::find(profiles, 0u, &mig::Profile::memory_mib) == profiles.end()) add("memory", profile.memory_mib);
  if (std::ranges::find(profiles, 0u, &mig::Profile::sm_count) == profiles.end())
    add("multiprocessors", profile.sm_count);
  for (std::size_t i = 0; i < kEngineNames.size(); ++i) add(kEngineNames[i], profile.engines[i]);
  for (std::uint32_t i = 0; i < place.size && in_bounds(place); ++i)
    add(fmt::format("{}{}", kSlice, place.start + i), 1);
  return counters;
}

}  // namespace

Devices devices_of(const config::Config& config, const Inventory& inventory,
                   const std::map<std::string, gpu::Unhealthy>& faults, const Partitionable& partitionable) {
  Devices devices;
  if (config.dra.devices == config::DraDevices::kNone) return devices;
  if (inventory.platform != gpu::Platform::kNvml) {
    devices.notes.push_back(
        fmt::format("the GPUs of platform {} are not offered through DRA", to_string(inventory.platform)));
    return devices;
  }
  std::vector<const Gpu*> gpus;
  for (const Gpu& gpu : inventory.gpus)
    if (!gpu::is_display_gpu(gpu) && plan::is_for_claims(config.dra, gpu)) gpus.push_back(&gpu);
  std::ranges::sort(gpus, {}, &Gpu::index);
  for (const Gpu* gpu : gpus) add_gpu(config, inventory, *gpu, partitionable, devices);
  for (Device& device : devices.list)
    for (const auto& uuid : {device.parent_uuid, device.gpu_uuid})
      if (const auto fault = faults.find(uuid); fault != faults.end()) device.fault = fault->second;
  return devices;
}

bool is_usable(const config::Config& config, const gpu::MigDevice& mig) {
  return !needs_nodes(config.flags) || (mig.gi_cap && mig.ci_cap);
}

bool is_for_partitions(const config::Config& config, const Gpu& gpu) {
  return config.dra.partitions == config::DraPartitions::kOnDemand && plan::is_for_claims(config.dra, gpu);
}

bool any_for_partitions(const config::Config& config, const Inventory& inventory) {
  return std::ranges::any_of(inventory.gpus,
                             [&](const Gpu& gpu) { return gpu.mig_enabled && is_for_partitions(config, gpu); });
}

const Device* find_device(const std::vector<Device>& devices, std::string_view name) {
  const auto at = std::ranges::find(devices, name, &Device::name);
  return at == devices.end() ? nullptr : &*at;
}

std::vector<PlacedProfile> partitions_of(const PartitionableGpu& gpu) {
  Counters left;
  std::vector<std::pair<std::size_t, PlacedProfile>> found;  // with how many others it overlaps
  for (const auto& profile : gpu.profiles) {
    for (const auto& place : profile.placements) {
      if (!in_bounds(place)) continue;
      std::size_t beside = 0;
      for (const auto& other : gpu.profiles)
        beside += static_cast<std::size_t>(
            std::ranges::count_if(other.placements, [&](const auto& theirs) { return mig::overlap(place, theirs); }));
      const Counters takes = counters_of(gpu.profiles, profile, place);
      // As many of one profile as the driver makes at a time have room, so no counter refuses what the driver accepts.
      for (const auto& [name, value] : takes)
        left[name] = std::max(left[name], name.starts_with(kSlice) ? 1 : value * std::max(profile.at_most, 1u));
      found.push_back({beside, {&profile, {{profile.id, profile.slices, place}, takes, {}}}});
    }
  }
  for (const auto& instance : gpu.foreign) {
    const auto* profile = mig::find_profile(gpu.profiles, instance.profile_id);
    const auto taken = counters_of(gpu.profiles, profile == nullptr ? mig::Profile{} : *profile, instance.place);
    for (auto& [name, value] : left)
      if (const auto part = taken.find(name); part != taken.end()) value -= std::min(value, part->second);
  }
  // Those with media engines or graphics come after the plain ones of their size.
  const auto key = [](const auto& one) {
    const auto& [beside, placed] = one;
    const mig::Profile& profile = *placed.profile;
    return std::tuple(profile.memory_mib, profile.slices, profile.name.size(), std::string_view(profile.name), beside,
                      placed.partition.instance.place.start);
  };
  std::ranges::stable_sort(found, {}, key);
  std::vector<PlacedProfile> placed;
  for (auto& [beside, one] : found) {
    one.partition.of_gpu = left;
    placed.push_back(std::move(one));
  }
  return placed;
}

}  // namespace tranche::dra
