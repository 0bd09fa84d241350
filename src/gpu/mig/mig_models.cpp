#include "gpu/mig/mig_models.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/problem.h"
#include "base/text.h"
#include "gpu/inventory/models.h"

namespace tranche::mig {
namespace {

std::vector<Placement> placements(std::uint32_t size, std::initializer_list<std::uint32_t> starts) {
  std::vector<Placement> all;
  for (const std::uint32_t start : starts) all.push_back({start, size});
  return all;
}

}  // namespace

const std::vector<Model>& models() {
  static const std::vector<Model> all{
#include "mig_models.inc"
  };
  return all;
}

const Model* find_model(std::string_view key) {
  const auto found = std::ranges::find(models(), key, &Model::key);
  return found == models().end() ? nullptr : &*found;
}

const Model* model_of(std::uint32_t pci_device_id, std::string_view name) {
  for (const Model& model : models())
    if (pci_device_id != 0 && model.pci_device_id == pci_device_id) return &model;
  const auto found = std::ranges::find(models(), name, &Model::name);
  return found == models().end() ? nullptr : &*found;
}

void complete_profiles(GpuState& gpu) {
  const Model* model = model_of(gpu.pci_device_id, gpu.name);
  if (model == nullptr) return;
  if (gpu.profiles.empty()) gpu.profiles = model->profiles;
  for (Profile& profile : gpu.profiles)
    if (const Profile* known = find_profile(model->profiles, profile.id);
        known != nullptr && profile.placements.empty())
      profile.placements = known->placements;
}

Result<std::vector<GpuState>> simulated_node(std::string_view text) {
  const auto [count, key] = gpu::counted_model(text).value_or(gpu::CountedModel{1, text});
  const Model* model = find_model(key);
  if (model == nullptr) {
    std::vector<std::string_view> keys;
    for (const Model& one : models()) keys.push_back(one.key);
    const std::string meant = did_you_mean(key, keys);
    return fail(Kind::kInvalid,
                fmt::format("{} is not a GPU model with known MIG profiles; {}the models are {}", in_quotes(key),
                            meant.empty() ? "" : "did you mean " + meant + "? ", fmt::join(keys, ", ")));
  }
  if (count < 1 || count > gpu::kMostModelGpus)
    return fail(Kind::kInvalid, fmt::format("{} does not name 1 to {} GPUs", in_quotes(text), gpu::kMostModelGpus));
  std::vector<GpuState> gpus;
  for (std::uint32_t i = 0; i < count; ++i) {
    GpuState gpu;
    gpu.index = i;
    gpu.uuid = fmt::format("GPU-{0:08x}-0000-4000-8000-{0:012x}", i);
    gpu.name = model->name;
    gpu.pci_device_id = model->pci_device_id;
    gpu.compute_capability = model->compute_capability;
    gpu.memory = mib(model->memory_mib);
    gpu.capable = true;
    gpu.profiles = model->profiles;
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

}  // namespace tranche::mig
