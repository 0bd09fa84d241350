#include "labels/label.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "labels/own_labels.h"

namespace tranche::label {
namespace {

using config::Config;
using inventory::Gpu;
using inventory::Inventory;

// Characters of label values and key names, at their ends and within.
bool is_end(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}
bool is_inner(char c) {
  return c == '-' || c == '_' || c == '.';
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
  const std::string third = parts.size() == 3 ? std::string(parts[2]) : "";
  const std::string values[] = {std::string(parts[0]), std::string(parts[1]), third};
  constexpr const char* kOld[] = {"major", "minor", "rev"};
  constexpr const char* kNew[] = {"major", "minor", "revision"};
  for (std::size_t i = 0; i < 3; ++i) {
    labels[key(std::string("cuda.driver.") + kOld[i])] = bounded(label_value(values[i]));
    labels[key(std::string("cuda.driver-version.") + kNew[i])] = bounded(label_value(values[i]));
  }
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
  add_hazard_labels(gpus, plan, inventory.driver_version, labels);
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

std::optional<Speaking> speaking_of(const Inventory& inventory) {
  const Gpus gpus = labelled_gpus(inventory);
  if (gpus.empty()) return std::nullopt;
  std::vector<ModelCount> models;
  for (const Gpu* gpu : gpus) {
    const auto known = std::ranges::find(models, gpu->name, &ModelCount::model);
    if (known == models.end())
      models.push_back({gpu->name, 1});
    else
      ++known->count;
  }
  Speaking speaking;
  for (auto& model : models) {
    if (model.model == speaker_of(gpus).name)
      speaking.speaker = std::move(model);
    else
      speaking.silent.push_back(std::move(model));
  }
  return speaking;
}

std::vector<std::string> notes_for(const Inventory& inventory) {
  const auto speaking = speaking_of(inventory);
  if (!speaking || speaking->silent.empty()) return {};
  std::vector<std::string> silent;
  for (const auto& [model, count] : speaking->silent) silent.push_back(fmt::format("{} x {}", count, model));
  return {
      fmt::format("the labels nvidia.com/gpu.… are about {} x {}; of {} they say nothing, which only "
                  "tranche.io/model.… labels do",
                  speaking->speaker.count, speaking->speaker.model, join(silent, ", "))};
}

std::string label_value(std::string_view text) {
  std::string value;
  bool blank = false;
  for (const char c : text) {
    const bool is_blank = c == ' ' || (c >= '\t' && c <= '\r');
    if (is_blank) blank = true;
    if (!is_end(c) && !is_inner(c)) continue;
    if (blank && !value.empty()) value += '-';
    blank = false;
    value += c;
  }
  return value;
}

bool legal_value(std::string_view value) {
  if (value.empty()) return true;
  return value.size() <= kLongestValue && is_end(value.front()) && is_end(value.back()) &&
         std::ranges::all_of(value, [](char c) { return is_end(c) || is_inner(c); });
}

bool legal_key(std::string_view key) {
  const auto slash = key.find('/');
  const std::string_view name = slash == std::string_view::npos ? key : key.substr(slash + 1);
  return !name.empty() && legal_value(name);  // the same letters and length
}

}  // namespace tranche::label
