#include "labels/resource_labels.h"

#include <algorithm>

namespace tranche::label {
namespace {

using config::Config;
using config::MigStrategy;
using config::SharingStrategy;
using inventory::Gpu;
using inventory::MigDevice;

constexpr const char* kGpu = "nvidia.com/gpu";

// How a resource is divided, for its labels.
struct Division {
  std::uint32_t replicas = 1;
  bool renamed = false;
  SharingStrategy strategy = SharingStrategy::kNone;
};

// If entries divide the devices of a name among them, or divide each by its own size, the plan has the result for the
// device that the labels describe.
Division planned_division(const plan::Plan& plan, const std::string& resource, std::string_view uuid) {
  for (const auto& planned : plan.resources) {
    if (planned.original_name != resource) continue;
    const auto device = std::ranges::find(planned.devices, uuid, &plan::PlannedDevice::uuid);
    if (device == planned.devices.end()) continue;
    return {device->slots, planned.name != planned.original_name, planned.sharing};
  }
  return {};
}

// Looked up by the un-renamed name, which the labels use as well.
Division division_of(const Config& config, const plan::Plan& plan, const std::string& resource, std::string_view uuid) {
  const auto* entry = config.sharing.strategy == SharingStrategy::kNone ? nullptr : sharing_of(config, resource);
  if (entry == nullptr) return {};
  if (config.sharing.per_device || entry->slot_memory || !entry->names.empty())
    return planned_division(plan, resource, uuid);
  const SharingStrategy strategy = strategy_of(config, *entry);
  if (entry->replicas < 2 && strategy != SharingStrategy::kMps) return {};
  return {entry->replicas, entry->rename.has_value(), strategy};
}

// If the value is too long for a label, the model is shortened, so that what follows it stays readable.
std::string product(const Gpu& gpu, const std::string& kind, const Division& division) {
  const std::string tail = kind + (division.replicas > 1 && !division.renamed ? "-SHARED" : "");
  return bounded(bounded(label_value(gpu.name), kLongestValue - std::min(kLongestValue, tail.size())) + tail);
}

std::string family(inventory::ComputeCapability capability) {
  const auto [major, minor] = capability;
  switch (major) {
    case 1:
      return "tesla";
    case 2:
      return "fermi";
    case 3:
      return "kepler";
    case 5:
      return "maxwell";
    case 6:
      return "pascal";
    case 7:
      return minor < 5 ? "volta" : "turing";
    case 8:
      return minor < 9 ? "ampere" : "ada-lovelace";
    case 9:
      return "hopper";
    case 10:
    case 12:
      return "blackwell";
    case 13:
      return "rubin";
    default:
      return "undefined";
  }
}

void set(Labels& labels, const std::string& resource, const std::string& suffix, std::string value) {
  labels[resource + "." + suffix] = std::move(value);
}
void set(Labels& labels, const std::string& resource, const std::string& suffix, std::uint64_t value) {
  set(labels, resource, suffix, std::to_string(value));
}

void set_sharing(Labels& labels, const std::string& resource, const Division& division) {
  set(labels, resource, "replicas", division.replicas);
  set(labels, resource, "sharing-strategy", std::string(to_string(division.strategy)));
}

void add_gpu_labels(const Config& config, const plan::Plan& plan, const Gpus& gpus, Labels& labels) {
  const Gpu& gpu = speaker_of(gpus);
  const auto count = std::ranges::count(gpus, gpu.name, &Gpu::name);
  // A GPU with MIG on is never shared as a whole: GPU feature discovery reports 0 replicas for it.
  const Division division =
      gpu.mig_enabled ? Division{0, false, SharingStrategy::kNone} : division_of(config, plan, kGpu, gpu.uuid);
  set(labels, kGpu, "product", product(gpu, "", division));
  set(labels, kGpu, "count", static_cast<std::uint64_t>(count));
  set_sharing(labels, kGpu, division);
  if (gpu.memory.in_mib() > 0) set(labels, kGpu, "memory", gpu.memory.in_mib());
  if (gpu.compute_capability.major == 0) return;
  set(labels, kGpu, "family", family(gpu.compute_capability));
  set(labels, kGpu, "compute.major", static_cast<std::uint64_t>(gpu.compute_capability.major));
  set(labels, kGpu, "compute.minor", static_cast<std::uint64_t>(gpu.compute_capability.minor));
}

std::string with_dots(std::string profile) {
  std::ranges::replace(profile, '+', '.');
  return profile;
}

void add_mig_labels(const Config& config, const plan::Plan& plan, const std::string& resource, const Gpu& gpu,
                    const MigDevice& mig, std::size_t count, Labels& labels) {
  const Division division = division_of(config, plan, resource, mig.uuid);
  set(labels, resource, "product", product(gpu, "-MIG-" + with_dots(mig.profile), division));
  set(labels, resource, "count", count);
  set_sharing(labels, resource, division);
  // The figure of the driver's attribute record, which GPU feature discovery shows.
  set(labels, resource, "memory", (mig.nominal_memory.value != 0 ? mig.nominal_memory : mig.memory).in_mib());
  set(labels, resource, "multiprocessors", mig.sm_count);
  set(labels, resource, "slices.gi", mig.gi_slices);
  set(labels, resource, "slices.ci", mig.ci_slices);
  constexpr const char* kEngines[] = {"copy", "decoder", "encoder", "jpeg", "ofa"};
  for (std::size_t i = 0; i < mig.engines.size(); ++i)
    set(labels, resource, std::string("engines.") + kEngines[i], mig.engines[i]);
}

// The first device of each profile and the number of devices.
struct Profile {
  const Gpu* gpu = nullptr;
  const MigDevice* mig = nullptr;
  std::size_t count = 0;
};

std::map<std::string, Profile> profiles_of(const Gpus& gpus) {
  std::map<std::string, Profile> profiles;
  for (const Gpu* gpu : gpus) {
    if (!gpu->mig_enabled) continue;
    for (const MigDevice& mig : gpu->mig_devices) {
      Profile& profile = profiles[with_dots(mig.profile)];
      if (profile.count++ == 0) profile = {gpu, &mig, 1};
    }
  }
  return profiles;
}

void add_invalid_labels(const Gpu& gpu, Labels& labels) {
  set(labels, kGpu, "product", product(gpu, "-MIG-INVALID", {}));
  for (const char* suffix : {"count", "replicas", "memory"}) set(labels, kGpu, suffix, 0);
  set(labels, kGpu, "sharing-strategy", "");
}

void add_single_labels(const Config& config, const plan::Plan& plan, const Gpus& gpus, Labels& labels) {
  const auto first = std::ranges::find_if(gpus, &Gpu::mig_enabled);
  if (first == gpus.end()) return;
  const auto profiles = profiles_of(gpus);
  const bool uniform = profiles.size() == 1 && std::ranges::all_of(gpus, [](const Gpu* gpu) {
                         return gpu->mig_enabled && !gpu->mig_devices.empty();
                       });
  if (!uniform) return add_invalid_labels(**first, labels);
  const Profile& only = profiles.begin()->second;
  add_mig_labels(config, plan, kGpu, *only.gpu, *only.mig, only.count, labels);
}

}  // namespace

std::string bounded(std::string value, std::size_t longest) {
  constexpr const char* kInner = "-_.";
  if (value.size() > longest) value.resize(longest);
  value.resize(value.find_last_not_of(kInner) + 1);
  value.erase(0, value.find_first_not_of(kInner));
  return value;
}

Gpus labelled_gpus(const inventory::Inventory& inventory) {
  Gpus gpus;
  for (const Gpu& gpu : inventory.gpus)
    if (!inventory::is_display_gpu(gpu)) gpus.push_back(&gpu);
  return gpus;
}

const Gpu& speaker_of(const Gpus& gpus) {
  std::map<std::string_view, std::size_t> counts;
  for (const Gpu* gpu : gpus) ++counts[gpu->name];
  const auto weight = [&](const Gpu& gpu) { return std::pair(!gpu.mig_enabled, counts[gpu.name]); };
  const Gpu* best = gpus.front();
  for (const Gpu* gpu : gpus)
    if (weight(*gpu) > weight(*best)) best = gpu;
  return *best;
}

void add_resource_labels(const Config& config, const plan::Plan& plan, const Gpus& gpus, Labels& labels) {
  add_gpu_labels(config, plan, gpus, labels);
  if (config.flags.mig_strategy == MigStrategy::kNone) return;
  labels["nvidia.com/mig.strategy"] = to_string(config.flags.mig_strategy);
  if (config.flags.mig_strategy == MigStrategy::kSingle) return add_single_labels(config, plan, gpus, labels);
  for (const auto& [name, profile] : profiles_of(gpus))
    add_mig_labels(config, plan, "nvidia.com/mig-" + name, *profile.gpu, *profile.mig, profile.count, labels);
}

}  // namespace tranche::label
