#include "plan/devices.h"

#include <fmt/format.h>

#include <algorithm>

namespace tranche::plan {
namespace {

using config::MigStrategy;
using inventory::Gpu;
using inventory::MigDevice;

constexpr const char* kGpuResource = "nvidia.com/gpu";

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

Candidate mig_device(const Gpu& gpu, const MigDevice& mig) {
  PlannedDevice device;
  device.uuid = mig.uuid;
  device.gpu_uuid = gpu.uuid;
  device.index = fmt::format("{}:{}", gpu.index, mig.slot);
  device.is_mig = true;
  device.memory = mig.memory;
  device.sm_count = mig.sm_count;
  device.compute_capability = gpu.compute_capability;
  device.numa_node = gpu.numa_node;
  device.paths = {fmt::format("/dev/nvidia{}", gpu.minor)};
  for (const auto& cap : {mig.gi_cap, mig.ci_cap})
    if (cap) device.paths.push_back(fmt::format("/dev/nvidia-caps/nvidia-cap{}", *cap));
  return {std::move(device), &gpu};
}

// NVIDIA compares the driver's whole attribute record.
bool same_kind(const MigDevice& a, const MigDevice& b) {
  return a.profile == b.profile && a.memory == b.memory && a.sm_count == b.sm_count && a.gi_slices == b.gi_slices &&
         a.ci_slices == b.ci_slices && a.engines == b.engines;
}

std::string mig_resource(std::string profile) {
  std::ranges::replace(profile, '+', '.');
  return "nvidia.com/mig-" + profile;
}

Problem mig_problem(std::string what, std::string remedy) {
  return {Severity::kError, {}, "flags.migStrategy", std::move(what), std::move(remedy)};
}

class Collector {
 public:
  Collector(const config::Config& config, const inventory::Inventory& inventory)
      : strategy_(config.flags.mig_strategy) {
    for (const std::string& sentence : inventory.unreadable) out.left_out.push_back({"a GPU", sentence});
    for (const Gpu& gpu : inventory.gpus) {
      if (is_display_gpu(gpu))
        out.left_out.push_back({name_of(gpu), "it is a display GPU (" + gpu.name + "), which takes no containers"});
      else
        gpus_.push_back(&gpu);
    }
  }

  void collect() {
    switch (strategy_) {
      case MigStrategy::kNone:
        return none();
      case MigStrategy::kSingle:
        return single();
      case MigStrategy::kMixed:
        return mixed();
    }
  }

  BaseResources out;

 private:
  void add_gpu(const Gpu& gpu) { out.by_name[kGpuResource].push_back(whole_gpu(gpu)); }

  void none() {
    for (const Gpu* gpu : gpus_) add_gpu(*gpu);
  }

  void single() {
    const auto with_mig = [](const Gpu* gpu) { return gpu->mig_enabled; };
    if (std::ranges::none_of(gpus_, with_mig)) return none();
    std::vector<std::uint32_t> empty;
    std::vector<std::uint32_t> plain;
    for (const Gpu* gpu : gpus_) {
      if (!gpu->mig_enabled) plain.push_back(gpu->index);
      if (gpu->mig_enabled && gpu->mig_devices.empty()) empty.push_back(gpu->index);
      if (!gpu->mig_enabled) continue;
      for (const MigDevice& mig : gpu->mig_devices) out.by_name[kGpuResource].push_back(mig_device(*gpu, mig));
    }
    if (!empty.empty())
      out.problems.push_back(
          mig_problem(fmt::format("is single, but {} {} MIG on and no MIG devices", list_of(empty),
                                  empty.size() == 1 ? "has" : "have"),
                      "create MIG devices there, turn MIG off on all GPUs, or write migStrategy: mixed"));
    refuse_unlike();
    if (!plain.empty())
      out.problems.push_back(mig_problem(fmt::format("is single, but {} {} MIG off while other GPUs have it on",
                                                     list_of(plain), plain.size() == 1 ? "has" : "have"),
                                         "turn MIG on or off on all GPUs, or write migStrategy: mixed"));
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
      if (gpu->mig_devices.empty()) out.left_out.push_back({name_of(*gpu), "MIG is on and it has no MIG devices"});
      for (const MigDevice& mig : gpu->mig_devices) {
        if (mig.ci_slices != mig.gi_slices)
          out.problems.push_back(mig_problem(
              fmt::format(
                  "is mixed, but {} has a MIG device {} ({}) that is a part of a GPU instance, for which there is no "
                  "resource name",
                  name_of(*gpu), mig.profile, mig.uuid),
              "create compute instances that fill their GPU instance"));
        out.by_name[mig_resource(mig.profile)].push_back(mig_device(*gpu, mig));
      }
    }
  }

  MigStrategy strategy_;
  std::vector<const Gpu*> gpus_;
};

}  // namespace

std::string list_of(const std::vector<std::uint32_t>& indices) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < indices.size();) {
    std::size_t end = i + 1;
    while (end < indices.size() && indices[end] == indices[end - 1] + 1) ++end;
    parts.push_back(end - i > 1 ? fmt::format("{}-{}", indices[i], indices[end - 1]) : std::to_string(indices[i]));
    i = end;
  }
  std::string text = indices.size() == 1 ? "GPU " : "GPUs ";
  for (std::size_t i = 0; i < parts.size(); ++i)
    text += (i == 0 ? "" : i + 1 == parts.size() ? " and " : ", ") + parts[i];
  return text;
}

std::string name_of(const Gpu& gpu) {
  return fmt::format("GPU {} ({})", gpu.index, gpu.uuid);
}

bool is_display_gpu(const Gpu& gpu) {
  return gpu.name == "DGX Display" || gpu.name == "NVIDIA DGX Display";
}

BaseResources base_resources(const config::Config& config, const inventory::Inventory& inventory) {
  Collector collector(config, inventory);
  collector.collect();
  return std::move(collector.out);
}

}  // namespace tranche::plan
