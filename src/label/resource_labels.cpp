#include "label/resource_labels.h"

#include <algorithm>

namespace tranche::label {
namespace {

using config::Config;
using config::MigStrategy;
using config::SharingStrategy;
using inventory::Gpu;
using inventory::MigDevice;

constexpr const char* kGpu = "nvidia.com/gpu";

// How a resource is divided, as its labels tell it.
struct Division {
  std::uint32_t replicas = 1;
  bool renamed = false;
  SharingStrategy strategy = SharingStrategy::kNone;
};

// Looked up by the un-renamed name, under which the labels stay as well.
Division division_of(const Config& config, const std::string& resource) {
  const auto* entry = config.sharing.strategy == SharingStrategy::kNone ? nullptr : sharing_of(config, resource);
  if (entry == nullptr || entry->replicas < 2) return {};
  return {entry->replicas, entry->rename.has_value(), config.sharing.strategy};
}

// The model is what gives way when the whole is too long for a label value: what follows it must stay readable.
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

// The GPU that stands for all in nvidia.com/gpu.*: plain ones before those with MIG on, then the commonest model.
const Gpu& speaker_of(const std::vector<const Gpu*>& gpus, std::size_t& count) {
  std::map<std::string_view, std::size_t> counts;
  for (const Gpu* gpu : gpus) ++counts[gpu->name];
  const Gpu* best = nullptr;
  for (const Gpu* gpu : gpus) {
    const auto weight = [&](const Gpu& g) { return std::pair(!g.mig_enabled, counts[g.name]); };
    if (best == nullptr || weight(*gpu) > weight(*best)) best = gpu;
  }
  count = counts[best->name];
  return *best;
}

void add_gpu_labels(const Config& config, const std::vector<const Gpu*>& gpus, Labels& labels) {
  std::size_t count = 0;
  const Gpu& gpu = speaker_of(gpus, count);
  // A GPU with MIG on is never shared as a whole: GPU feature discovery says 0 replicas there.
  const Division division = gpu.mig_enabled ? Division{0, false, SharingStrategy::kNone} : division_of(config, kGpu);
  set(labels, kGpu, "product", product(gpu, "", division));
  set(labels, kGpu, "count", count);
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

void add_mig_labels(const Config& config, const std::string& resource, const Gpu& gpu, const MigDevice& mig,
                    std::size_t count, Labels& labels) {
  const Division division = division_of(config, resource);
  set(labels, resource, "product", product(gpu, "-MIG-" + with_dots(mig.profile), division));
  set(labels, resource, "count", count);
  set_sharing(labels, resource, division);
  set(labels, resource, "memory", mig.memory.in_mib());
  set(labels, resource, "multiprocessors", mig.sm_count);
  set(labels, resource, "slices.gi", mig.gi_slices);
  set(labels, resource, "slices.ci", mig.ci_slices);
  constexpr const char* kEngines[] = {"copy", "decoder", "encoder", "jpeg", "ofa"};
  for (std::size_t i = 0; i < mig.engines.size(); ++i)
    set(labels, resource, std::string("engines.") + kEngines[i], mig.engines[i]);
}

// The first device of each profile with how many there are.
struct Profile {
  const Gpu* gpu = nullptr;
  const MigDevice* mig = nullptr;
  std::size_t count = 0;
};

std::map<std::string, Profile> profiles_of(const std::vector<const Gpu*>& gpus) {
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

void add_single_labels(const Config& config, const std::vector<const Gpu*>& gpus, Labels& labels) {
  const auto first = std::ranges::find_if(gpus, &Gpu::mig_enabled);
  if (first == gpus.end()) return;
  const auto profiles = profiles_of(gpus);
  const bool uniform = profiles.size() == 1 && std::ranges::all_of(gpus, [](const Gpu* gpu) {
                         return gpu->mig_enabled && !gpu->mig_devices.empty();
                       });
  if (!uniform) return add_invalid_labels(**first, labels);
  const Profile& only = profiles.begin()->second;
  add_mig_labels(config, kGpu, *only.gpu, *only.mig, only.count, labels);
}

}  // namespace

std::string bounded(std::string value, std::size_t longest) {
  constexpr const char* kInner = "-_.";
  if (value.size() > longest) value.resize(longest);
  value.resize(value.find_last_not_of(kInner) + 1);
  value.erase(0, value.find_first_not_of(kInner));
  return value;
}

void add_resource_labels(const Config& config, const std::vector<const Gpu*>& gpus, Labels& labels) {
  add_gpu_labels(config, gpus, labels);
  if (config.flags.mig_strategy == MigStrategy::kNone) return;
  labels["nvidia.com/mig.strategy"] = to_string(config.flags.mig_strategy);
  if (config.flags.mig_strategy == MigStrategy::kSingle) return add_single_labels(config, gpus, labels);
  for (const auto& [name, profile] : profiles_of(gpus))
    add_mig_labels(config, "nvidia.com/mig-" + name, *profile.gpu, *profile.mig, profile.count, labels);
}

}  // namespace tranche::label
