#include "labels/label.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "plan/shares.h"

namespace tranche::labels {
namespace {

using config::Config;
using config::MigStrategy;
using config::SharingStrategy;
using gpu::Gpu;
using gpu::Inventory;
using gpu::MigDevice;

using Gpus = std::vector<const Gpu*>;

constexpr std::size_t kLongestValue = 63;
constexpr const char* kGpu = "nvidia.com/gpu";
constexpr const char* kOwn = "tranche.io/";  // labels that GPU feature discovery does not set
constexpr gpu::ComputeCapability kHopper{9, 0};

constexpr std::string_view kInner = "-_.";  // in label values and key names, beside letters and digits; not at an end

// Shortened to `longest`, beginning and ending with a letter or digit, as the API server requires of a label value.
std::string bounded(std::string value, std::size_t longest = kLongestValue) {
  if (value.size() > longest) value.resize(longest);
  value.resize(value.find_last_not_of(kInner) + 1);
  value.erase(0, value.find_first_not_of(kInner));
  return value;
}

// Those that GPU feature discovery considers.
Gpus labelled_gpus(const gpu::Inventory& inventory) {
  Gpus gpus;
  for (const Gpu& gpu : inventory.gpus)
    if (!gpu::is_display_gpu(gpu)) gpus.push_back(&gpu);
  return gpus;
}

// The GPU that nvidia.com/gpu.* describes, of at least one: GPUs without MIG first, then the most common model, then
// the lowest index.
const Gpu& speaker_of(const Gpus& gpus) {
  std::map<std::string_view, std::size_t> counts;
  for (const Gpu* gpu : gpus) ++counts[gpu->name];
  const auto weight = [&](const Gpu& gpu) { return std::pair(!gpu.mig_enabled, counts[gpu.name]); };
  const Gpu* best = gpus.front();
  for (const Gpu* gpu : gpus)
    if (weight(*gpu) > weight(*best)) best = gpu;
  return *best;
}

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

std::string family(gpu::ComputeCapability capability) {
  std::string name(gpu::architecture_of(capability));
  if (name.empty()) return "undefined";
  std::ranges::transform(name, name.begin(), [](char c) { return c == ' ' ? '-' : to_lower(c); });
  return name;
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

// nvidia.com/gpu.* and nvidia.com/mig-<profile>.*: the devices themselves.
void add_resource_labels(const Config& config, const plan::Plan& plan, const Gpus& gpus, Labels& labels) {
  add_gpu_labels(config, plan, gpus, labels);
  if (config.flags.mig_strategy == MigStrategy::kNone) return;
  labels["nvidia.com/mig.strategy"] = to_string(config.flags.mig_strategy);
  if (config.flags.mig_strategy == MigStrategy::kSingle) return add_single_labels(config, plan, gpus, labels);
  for (const auto& [name, profile] : profiles_of(gpus))
    add_mig_labels(config, plan, "nvidia.com/mig-" + name, *profile.gpu, *profile.mig, profile.count, labels);
}

// model.<model>.count and .memory: every model of the node, regardless of MIG and sharing.
void add_model_labels(const Gpus& gpus, Labels& labels) {
  struct Model {
    std::size_t count = 0;
    std::uint64_t mib = UINT64_MAX;
  };
  const std::string prefix = "model.";
  const std::string longest_suffix = ".memory";
  std::map<std::string, Model> models;
  for (const Gpu* gpu : gpus) {
    Model& model = models[bounded(label_value(gpu->name), kLongestValue - prefix.size() - longest_suffix.size())];
    ++model.count;
    model.mib = std::min(model.mib, gpu->memory.in_mib());
  }
  models.erase("");
  for (const auto& [name, model] : models) {
    labels[kOwn + prefix + name + ".count"] = std::to_string(model.count);
    if (model.mib > 0) labels[kOwn + prefix + name + longest_suffix] = std::to_string(model.mib);
  }
}

// <resource>.slot.…: the limits of one slot under MPS; of several kinds of device, the smallest.
void add_slot_labels(const plan::Plan& plan, Labels& labels) {
  struct Slot {
    std::uint64_t sms = UINT64_MAX;
    std::uint64_t mib = UINT64_MAX;
  };
  std::map<std::string, std::map<std::string, Slot>> kinds;  // by the name before renaming and the advertised one
  for (const auto& resource : plan.resources)
    for (const auto& device : resource.devices) {
      if (device.pool.empty()) continue;
      Slot& least = kinds[resource.original_name][resource.name];
      least.sms = std::min<std::uint64_t>(least.sms, device.share.sms);
      least.mib = std::min<std::uint64_t>(least.mib, device.share.memory.in_mib());
    }
  for (const auto& [original, resources] : kinds)
    for (const auto& [advertised, slot] : resources) {
      const std::string& name = resources.size() > 1 ? advertised : original;  // which labels use otherwise
      const std::string label = kOwn + name.substr(name.find('/') + 1) + ".slot";
      if (slot.sms > 0) labels[label + ".sms"] = std::to_string(slot.sms);  // 0 = unknown
      if (slot.mib > 0) labels[label + ".memory"] = std::to_string(slot.mib);
    }
}

bool cut_to_a_wrong_count(const plan::Plan& plan) {
  for (const auto& resource : plan.resources)
    for (const auto& device : resource.devices) {
      if (device.pool.empty() || device.share.sms == 0) continue;
      const auto spans = plan::trusted_sm_counts(device.compute_capability, device.sm_count);
      if (!plan::is_trusted(device.share.sms, spans)) return true;
    }
  return false;
}

// hazard.sm-counts: "exposed" if a slot has an SM count with which this GPU is known to compute wrong results,
// "avoided" if there are such counts and no slot has one, "unmeasured" if such counts are likely.
void add_hazard_labels(const Gpus& gpus, const plan::Plan& plan, Labels& labels) {
  bool known = false;
  bool unmeasured = false;
  for (const Gpu* gpu : gpus) {
    const bool measured = !plan::trusted_sm_counts(gpu->compute_capability, gpu->sm_count).empty();
    known = known || measured;
    // If one GPU of an architecture is known to compute wrong results, unmeasured ones are not assumed to be correct.
    unmeasured = unmeasured || (!measured && gpu->compute_capability == kHopper);
  }
  if (!known && !unmeasured) return;
  labels[std::string(kOwn) + "hazard.sm-counts"] = cut_to_a_wrong_count(plan) ? "exposed"
                                                   : unmeasured               ? "unmeasured"
                                                                              : "avoided";
}

std::string key(std::string_view suffix) {
  return "nvidia.com/" + std::string(suffix);
}
std::string yes_no(bool value) {
  return value ? "true" : "false";
}

void add_driver_version(const std::string& version, Labels& labels) {
  labels[key("cuda.driver-version.full")] = bounded(label_value(version));
  const auto parts = split(version, '.');
  if (parts.size() < 2 || parts.size() > 3)
    return;  // GPU feature discovery exits here; the other labels are still useful
  const auto value = [&](std::size_t at) { return at < parts.size() ? bounded(label_value(parts[at])) : ""; };
  labels[key("cuda.driver.major")] = labels[key("cuda.driver-version.major")] = value(0);
  labels[key("cuda.driver.minor")] = labels[key("cuda.driver-version.minor")] = value(1);
  labels[key("cuda.driver.rev")] = labels[key("cuda.driver-version.revision")] = value(2);
}

void add_cuda_version(int version, Labels& labels) {
  if (version <= 0) return;
  const std::string major = std::to_string(version / 1000);
  const std::string minor = std::to_string(version % 1000 / 10);
  for (const char* name : {"cuda.runtime", "cuda.runtime-version"}) {
    labels[key(std::string(name) + ".major")] = major;
    labels[key(std::string(name) + ".minor")] = minor;
  }
  labels[key("cuda.runtime-version.full")] = major + "." + minor;
}

std::string mode_of(const Gpus& gpus) {
  const auto all = [&](std::uint32_t pci_class) {
    return std::ranges::all_of(gpus, [&](const Gpu* gpu) { return gpu->pci_class == pci_class; });
  };
  return all(0x030200) ? "compute" : all(0x030000) ? "graphics" : "unknown";
}

// The clique that all GPUs on a fabric have in common; "" if there is none or they differ.
std::string clique_of(const Gpus& gpus) {
  std::string clique;
  for (const Gpu* gpu : gpus) {
    if (gpu->fabric_clique.empty() || gpu->fabric_clique == clique) continue;
    if (!clique.empty()) return {};
    clique = gpu->fabric_clique;
  }
  return clique;
}

void add_vgpu(const std::optional<Vgpu>& vgpu, Labels& labels) {
  if (!vgpu) return;
  labels[key("vgpu.present")] = yes_no(vgpu->present);
  if (!vgpu->present) return;
  const std::string version = bounded(label_value(vgpu->host_driver_version));
  const std::string branch = bounded(label_value(vgpu->host_driver_branch));
  if (!version.empty()) labels[key("vgpu.host-driver-version")] = version;
  if (!branch.empty()) labels[key("vgpu.host-driver-branch")] = branch;
}

void add_gpu_node(const Config& config, const Inventory& inventory, const plan::Plan& plan, const Inputs& inputs,
                  const Gpus& gpus, Labels& labels) {
  const std::string machine = bounded(label_value(inputs.machine_type));
  labels[key("gpu.machine")] = machine.empty() ? "unknown" : machine;
  add_driver_version(inventory.driver_version, labels);
  add_cuda_version(inventory.cuda_driver_version, labels);
  labels[key("mig.capable")] = yes_no(std::ranges::any_of(gpus, &Gpu::mig_capable));
  // If some GPUs have MIG on, GPU feature discovery exits; Tranche reports whether MPS serves anything.
  const bool any_mig = std::ranges::any_of(gpus, &Gpu::mig_enabled);
  const bool mps = config.sharing.strategy == config::SharingStrategy::kMps;
  labels[key("mps.capable")] = yes_no(mps && (!any_mig || !plan.pools.empty()));
  add_resource_labels(config, plan, gpus, labels);
  add_slot_labels(plan, labels);
  add_model_labels(gpus, labels);
  add_hazard_labels(gpus, plan, labels);
  labels[key("gpu.mode")] = mode_of(gpus);
  if (const std::string clique = bounded(clique_of(gpus)); !clique.empty()) labels[key("gpu.clique")] = clique;
}

}  // namespace

Labels labels_for(const Config& config, const Inventory& inventory, const plan::Plan& plan, const Inputs& inputs) {
  Labels labels;
  if (inputs.loaded_at && !config.flags.gfd.no_timestamp) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(inputs.loaded_at->time_since_epoch());
    labels[key("gfd.timestamp")] = std::to_string(seconds.count());
  }
  add_vgpu(inputs.vgpu, labels);
  const Gpus gpus = labelled_gpus(inventory);
  if (!gpus.empty()) add_gpu_node(config, inventory, plan, inputs, gpus, labels);
  // A single invalid label makes the API server refuse all of them.
  std::erase_if(labels, [](const auto& label) { return !legal_key(label.first) || !legal_value(label.second); });
  return labels;
}

std::vector<std::string> notes_for(const Inventory& inventory) {
  std::vector<std::pair<std::string_view, std::size_t>> models;  // by their lowest index
  const Gpus gpus = labelled_gpus(inventory);
  for (const Gpu* gpu : gpus) {
    const auto known = std::ranges::find(models, gpu->name, &decltype(models)::value_type::first);
    ++(known == models.end() ? models.emplace_back(gpu->name, 0) : *known).second;
  }
  if (models.size() < 2) return {};
  const auto text = [](const auto& one) { return fmt::format("{} x {}", one.second, one.first); };
  const auto described = *std::ranges::find(models, speaker_of(gpus).name, &decltype(models)::value_type::first);
  std::erase(models, described);
  return {
      fmt::format("the labels nvidia.com/gpu.… are about {}; of {} they say nothing, which only "
                  "tranche.io/model.… labels do",
                  text(described), join(models, ", ", text))};
}

std::string label_value(std::string_view text) {
  std::string value;
  bool blank = false;
  for (const char c : text) {
    const bool is_blank = c == ' ' || (c >= '\t' && c <= '\r');
    if (is_blank) blank = true;
    if (!is_alnum(c) && !kInner.contains(c)) continue;
    if (blank && !value.empty()) value += '-';
    blank = false;
    value += c;
  }
  return value;
}

bool legal_value(std::string_view value) {
  if (value.empty()) return true;
  return value.size() <= kLongestValue && is_alnum(value.front()) && is_alnum(value.back()) &&
         std::ranges::all_of(value, [](char c) { return is_alnum(c) || kInner.contains(c); });
}

bool legal_key(std::string_view key) {
  const auto slash = key.find('/');
  const std::string_view name = slash == std::string_view::npos ? key : key.substr(slash + 1);
  return !name.empty() && legal_value(name);  // the same letters and length
}

}  // namespace tranche::labels
