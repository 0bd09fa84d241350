#include "plan/select.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/text.h"
#include "config/names.h"
#include "gpu/inventory/inventory.h"
#include "plan/table.h"

namespace tranche::plan {
namespace {

using config::MigStrategy;
using gpu::Gpu;
using gpu::MigDevice;

constexpr const char* kGpuResource = "nvidia.com/gpu";
constexpr std::string_view kUrn = "urn:uuid:";

Candidate whole_gpu(const Gpu& gpu) {
  PlannedDevice device;
  device.uuid = device.gpu_uuid = gpu.uuid;
  device.index = std::to_string(gpu.index);
  device.memory = gpu.memory;
  device.sm_count = gpu.sm_count;
  device.compute_capability = gpu.compute_capability;
  device.numa_node = gpu.numa_node;
  device.paths = {fmt::format("/dev/nvidia{}", gpu.minor)};
  return {std::move(device), &gpu};
}

// Under WSL all GPUs are reached through one node, and a container with it sees them all, so they are one device.
Candidate wsl_device(const Gpu& any) {
  PlannedDevice device;
  device.uuid = device.gpu_uuid = device.index = gpu::kWslDevice;
  device.paths = {"/dev/dxg"};
  return {std::move(device), &any};
}

// A Tegra chip has one GPU, which no library describes.
Candidate tegra_device() {
  PlannedDevice device;
  device.uuid = device.gpu_uuid = gpu::kTegraDevice;
  device.index = "0";
  return {std::move(device), nullptr};
}

Candidate mig_device(const Gpu& gpu, const MigDevice& mig) {
  Candidate part = whole_gpu(gpu);
  PlannedDevice& device = part.device;
  device.uuid = mig.uuid;
  device.index = fmt::format("{}:{}", gpu.index, mig.slot);
  device.is_mig = true;
  device.memory = mig.memory;
  device.sm_count = mig.sm_count;
  for (const auto& cap : {mig.gi_cap, mig.ci_cap})
    if (cap) device.paths.push_back(fmt::format("/dev/nvidia-caps/nvidia-cap{}", *cap));
  return part;
}

// As in NVIDIA's plugin: compares the whole of the driver's attribute record, and nothing else; graphics is not part of
// it. A recording without that record's memory is compared by the devices' reported memory.
bool same_kind(const MigDevice& a, const MigDevice& b) {
  const auto memory = [](const MigDevice& mig) {
    return mig.nominal_memory.value != 0 ? mig.nominal_memory : mig.memory;
  };
  return memory(a) == memory(b) && a.sm_count == b.sm_count && a.gi_slices == b.gi_slices &&
         a.ci_slices == b.ci_slices && a.engines == b.engines;
}

Problem mig_problem(std::string what, std::string remedy) {
  return {Severity::kError, {}, "flags.migStrategy", std::move(what), std::move(remedy)};
}

class Collector {
 public:
  Collector(const config::Config& config, const gpu::Inventory& inventory)
      : config_(config), platform_(inventory.platform) {
    for (const std::string& sentence : inventory.unreadable) out.left_out.push_back({"a GPU", sentence});
    std::ranges::copy(inventory.set_aside, std::back_inserter(out.left_out));
    for (const Gpu& gpu : inventory.gpus) {
      if (is_display_gpu(gpu))
        out.left_out.push_back({name_of(gpu), "it is a display GPU (" + gpu.name + "), which does not run containers"});
      else
        gpus_.push_back(&gpu);
    }
  }

  void collect() {
    if (platform_ == gpu::Platform::kTegra) return out.by_name[kGpuResource].push_back(tegra_device());
    if (config_.flags.mig_strategy == MigStrategy::kNone) none();
    if (config_.flags.mig_strategy == MigStrategy::kSingle) single();
    if (config_.flags.mig_strategy == MigStrategy::kMixed) mixed();
    if (platform_ != gpu::Platform::kWsl) return;
    for (auto& [name, candidates] : out.by_name)
      if (!candidates.empty()) candidates = {wsl_device(*candidates.front().gpu)};
  }

  BaseResources out;

 private:
  void add_gpu(const Gpu& gpu) { out.by_name[kGpuResource].push_back(whole_gpu(gpu)); }

  // With device specs a container gets only the listed nodes: without the two that give access to the instances, it
  // would hold a device that it cannot use.
  void add_mig(const std::string& name, const Gpu& gpu, const MigDevice& mig) {
    if (config_.flags.plugin.pass_device_specs && (!mig.gi_cap || !mig.ci_cap))
      return out.left_out.push_back(
          {name_of(gpu, mig),
           "passDeviceSpecs is on, and the driver's table (/proc/driver/nvidia-caps/mig-minors) does not list which "
           "device nodes open it"});
    out.by_name[name].push_back(mig_device(gpu, mig));
  }

  void none() {
    for (const Gpu* gpu : gpus_) add_gpu(*gpu);
  }

  void single() {
    const auto with_mig = [](const Gpu* gpu) { return gpu->mig_enabled; };
    if (std::ranges::none_of(gpus_, with_mig)) return none();
    std::vector<std::uint32_t> empty, plain;
    for (const Gpu* gpu : gpus_) {
      if (!gpu->mig_enabled) {
        plain.push_back(gpu->index);
        continue;
      }
      if (gpu->mig_devices.empty()) empty.push_back(gpu->index);
      for (const MigDevice& mig : gpu->mig_devices) add_mig(kGpuResource, *gpu, mig);
    }
    if (!empty.empty())
      out.problems.push_back(
          mig_problem(fmt::format("is single, but {} {} MIG mode enabled and no MIG devices", list_of(empty),
                                  empty.size() == 1 ? "has" : "have"),
                      "create MIG devices there, disable MIG mode on all GPUs, or write migStrategy: mixed"));
    refuse_unlike();
    if (!plain.empty())
      out.problems.push_back(
          mig_problem(fmt::format("is single, but {} {} MIG mode disabled while other GPUs have it enabled",
                                  list_of(plain), plain.size() == 1 ? "has" : "have"),
                      "enable or disable MIG mode on all GPUs, or write migStrategy: mixed"));
  }

  // One Problem per kind of MIG device that differs from the first.
  void refuse_unlike() {
    std::vector<const MigDevice*> kinds;
    for (const Gpu* gpu : gpus_) {
      if (!gpu->mig_enabled) continue;
      for (const MigDevice& mig : gpu->mig_devices) {
        if (std::ranges::any_of(kinds, [&](const MigDevice* kind) { return same_kind(*kind, mig); })) continue;
        kinds.push_back(&mig);
        if (kinds.size() == 1) continue;
        out.problems.push_back(
            mig_problem(fmt::format("is single, but {} has a MIG device {} ({}) that is unlike {} ({})", name_of(*gpu),
                                    mig.profile, mig.uuid, kinds.front()->profile, kinds.front()->uuid),
                        "make all MIG devices of the node alike, or write migStrategy: mixed"));
      }
    }
  }

  void mixed() {
    for (const Gpu* gpu : gpus_) {
      if (!gpu->mig_enabled) {
        add_gpu(*gpu);
        continue;
      }
      const bool on_demand =
          config_.dra.partitions == config::DraPartitions::kOnDemand && is_for_claims(config_.dra, *gpu);
      if (gpu->mig_devices.empty() && !on_demand)
        out.left_out.push_back({name_of(*gpu), "MIG mode is enabled and it has no MIG devices"});
      for (const MigDevice& mig : gpu->mig_devices) {
        if (mig.ci_slices != mig.gi_slices)
          out.problems.push_back(mig_problem(
              fmt::format(
                  "is mixed, but {} has a MIG device {} ({}) that is a part of a GPU instance, for which there is no "
                  "resource name",
                  name_of(*gpu), mig.profile, mig.uuid),
              "create compute instances that fill their GPU instance"));
        add_mig(mig_resource(mig.profile), *gpu, mig);
      }
    }
  }

  const config::Config& config_;
  gpu::Platform platform_;
  std::vector<const Gpu*> gpus_;
};

// UUIDs are written with and without dashes, in braces, or as a URN.
bool same_uuid(std::string_view a, std::string_view b) {
  const auto plain = [](std::string uuid) {
    if (const auto urn = uuid.find(kUrn); urn != uuid.npos) uuid.erase(urn, kUrn.size());
    std::erase_if(uuid, [](char c) { return c == '-' || c == '{' || c == '}'; });
    return uuid;
  };
  return same_in_any_case(plain(std::string(a)), plain(std::string(b)));
}

bool same_index(std::string_view reference, std::uint32_t index) {
  return parse_unsigned(reference) == index;
}

// "MIG-GPU-<uuid>/<gpu instance>/<compute instance>", the MIG device names of old drivers.
bool names_instances(std::string_view reference, const Candidate& candidate) {
  const auto pieces = split(reference.substr(4), '/');
  const auto& devices = candidate.gpu->mig_devices;
  const auto mig = std::ranges::find(devices, candidate.device.uuid, &gpu::MigDevice::uuid);
  return pieces.size() == 3 && mig != devices.end() && same_uuid(pieces[0], candidate.device.gpu_uuid) &&
         same_index(pieces[1], mig->gpu_instance) && same_index(pieces[2], mig->compute_instance);
}

// The first pattern of the list that matches this GPU; nullptr = none.
const config::DeviceRef* found_in(const std::vector<config::DeviceRef>& patterns, const Gpu& gpu) {
  const auto found = std::ranges::find_if(patterns, [&](const auto& ref) { return names_gpu(ref.text, gpu); });
  return found == patterns.end() ? nullptr : &*found;
}

// Why a GPU is excluded, or "".
std::string why_out(const config::DeviceFilter& filter, const Gpu& gpu) {
  if (const auto* pattern = found_in(filter.exclude, gpu))
    return fmt::format("devices.exclude has {}", in_quotes(pattern->text));
  if (!filter.include.empty() && found_in(filter.include, gpu) == nullptr) return "devices.include does not name it";
  return {};
}

}  // namespace

std::string mig_resource(std::string profile) {
  std::ranges::replace(profile, '+', '.');
  return "nvidia.com/mig-" + profile;
}

std::string list_of(const std::vector<std::uint32_t>& indices) {
  std::vector<std::string> texts;
  for (const std::uint32_t index : indices) texts.push_back(std::to_string(index));
  const auto parts = folded(texts);
  return (indices.size() == 1 ? "GPU " : "GPUs ") +
         text_of_all(std::vector<std::string_view>(parts.begin(), parts.end()), " and ");
}

BaseResources base_resources(const config::Config& config, const gpu::Inventory& inventory) {
  Collector collector(config, inventory);
  collector.collect();
  return std::move(collector.out);
}

bool names_gpu(std::string_view pattern, const Gpu& gpu) {
  if (pattern.starts_with("GPU-")) return same_uuid(pattern, gpu.uuid);
  if (const auto index = parse_unsigned(pattern)) return *index == gpu.index;
  if (const auto address = config::pci_address(pattern)) return address == config::pci_address(gpu.pci_bus_id);
  return config::matches(gpu.name, pattern);
}

bool is_for_claims(const config::Dra& dra, const Gpu& gpu) {
  return dra.devices == config::DraDevices::kAll || found_in(dra.listed, gpu) != nullptr;
}

bool names_device(std::string_view reference, const Candidate& candidate) {
  const PlannedDevice& device = candidate.device;
  if (reference.starts_with("MIG-GPU-")) return candidate.gpu != nullptr && names_instances(reference, candidate);
  if (reference.starts_with("GPU-") || reference.starts_with("MIG-"))
    return same_uuid(reference, device.uuid) || same_uuid(reference, device.gpu_uuid);
  if (reference.find(':') == std::string_view::npos && candidate.gpu != nullptr)
    return same_index(reference, candidate.gpu->index);
  const auto theirs = split(reference, ':');
  const auto ours = split(device.index, ':');
  return std::ranges::equal(
      theirs, ours, {}, [](std::string_view piece) { return parse_unsigned(piece); },
      [](std::string_view piece) { return parse_unsigned(piece); });
}

gpu::Inventory keep_gpus(const config::DeviceFilter& filter, const gpu::Inventory& inventory) {
  if (filter.include.empty() && filter.exclude.empty()) return inventory;
  gpu::Inventory kept = inventory;
  kept.gpus.clear();
  for (const Gpu& gpu : inventory.gpus) {
    if (std::string why = why_out(filter, gpu); !why.empty()) {
      kept.set_aside.push_back({name_of(gpu), std::move(why)});
      continue;
    }
    kept.gpus.push_back(gpu);
  }
  kept.links = gpu::links_among(kept.gpus, {&inventory});
  return kept;
}

}  // namespace tranche::plan
