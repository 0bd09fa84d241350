#include "gpu/models/models.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/problem.h"
#include "base/text.h"

namespace tranche::gpu {
namespace {

constexpr std::uint32_t kMostGpus = 16;

std::vector<mig::Placement> placements(std::uint32_t size, std::initializer_list<std::uint32_t> starts) {
  std::vector<mig::Placement> all;
  for (const std::uint32_t start : starts) all.push_back({start, size});
  return all;
}

std::string uuid_of(std::uint32_t index) {
  return fmt::format("GPU-{0:08x}-0000-4000-8000-{0:012x}", index);
}

bool is_known(const GpuModel& model, bool mig) {
  return mig ? !model.profiles.empty() : model.sm_count != 0;
}

struct Asked {
  std::uint64_t count = 1;
  std::string_view key;
  const GpuModel* model = nullptr;
};

// "8xMODEL" taken apart; absent if the text does not begin with a count and an x.
std::optional<Asked> counted(std::string_view text) {
  const auto x = text.find('x');
  const auto count = x == std::string_view::npos ? std::nullopt : parse_unsigned(text.substr(0, x));
  return count ? std::optional(Asked{*count, text.substr(x + 1)}) : std::nullopt;
}

Result<Asked> asked_for(std::string_view text, bool mig) {
  Asked asked = counted(text).value_or(Asked{1, text});
  asked.model = find_model(asked.key);
  if (asked.model == nullptr || !is_known(*asked.model, mig))
    return fail(Kind::kInvalid, fmt::format("{} is not a {}; {}", in_quotes(asked.key),
                                            mig ? "GPU model with known MIG profiles" : "known GPU model",
                                            known_models(asked.key, mig)));
  if (asked.count < 1 || asked.count > kMostGpus)
    return fail(Kind::kInvalid, fmt::format("{} does not name 1 to {} GPUs", in_quotes(text), kMostGpus));
  return asked;
}

}  // namespace

// From data/gpus (src/gpu/CMakeLists.txt), those with MIG first.
std::span<const GpuModel> gpu_models() {
  static const std::vector<GpuModel> all{
#include "gpu_models.inc"
  };
  return all;
}

std::span<const GpuModel> mig_models() {
  const auto all = gpu_models();
  return {all.begin(), std::ranges::find_if(all, [](const GpuModel& model) { return model.profiles.empty(); })};
}

const GpuModel* find_model(std::string_view key) {
  const auto found = std::ranges::find(gpu_models(), key, &GpuModel::key);
  return found == gpu_models().end() ? nullptr : &*found;
}

const GpuModel* model_of(std::uint32_t pci_device_id, std::string_view name) {
  for (const GpuModel& model : mig_models())
    if (pci_device_id != 0 && model.pci_device_id == pci_device_id) return &model;
  const auto found = std::ranges::find(mig_models(), name, &GpuModel::name);
  return found == mig_models().end() ? nullptr : &*found;
}

std::string known_models(std::string_view key, bool mig) {
  std::vector<std::string_view> names;
  for (const GpuModel& model : gpu_models())
    if (is_known(model, mig)) names.push_back(model.key);
  std::ranges::sort(names);
  std::string meant;
  for (const std::string_view name : names)  // "H100" is closer to H200 as a misspelling
    if (meant.empty() && key.size() > 1 && same_in_any_case(key, name.substr(0, key.size()))) meant = name;
  if (meant.empty()) meant = did_you_mean(key, names);
  return fmt::format("{}The models are {}", meant.empty() ? "" : "did you mean " + meant + "? ",
                     fmt::join(names, ", "));
}

bool names_model(std::string_view text) {
  return counted(text).has_value() || find_model(text) != nullptr;
}

Result<Inventory> inventory_of_model(std::string_view text) {
  TRY(const Asked asked, asked_for(text, false));
  Inventory inventory;
  inventory.driver_version = "580.159.04";
  inventory.cuda_driver_version = 13000;
  for (std::uint32_t i = 0; i < asked.count; ++i) {
    Gpu& gpu = inventory.gpus.emplace_back();
    gpu.uuid = uuid_of(i);
    gpu.index = gpu.minor = i;
    gpu.name = asked.model->name;
    gpu.pci_bus_id = fmt::format("00000000:{:02X}:00.0", i + 1);
    gpu.pci_class = asked.model->pci_class;
    gpu.memory = mib(asked.model->memory_mib);
    gpu.compute_capability = asked.model->compute_capability;
    gpu.sm_count = asked.model->sm_count;
    gpu.mig_capable = is_known(*asked.model, true);
    for (std::uint32_t b = i + 1; b < asked.count; ++b) inventory.links.push_back({i, b, 50, 0});
  }
  return inventory;
}

Result<std::vector<mig::GpuState>> simulated_node(std::string_view text) {
  TRY(const Asked asked, asked_for(text, true));
  std::vector<mig::GpuState> gpus;
  for (std::uint32_t i = 0; i < asked.count; ++i) {
    mig::GpuState& gpu = gpus.emplace_back();
    gpu.index = i;
    gpu.uuid = uuid_of(i);
    gpu.name = asked.model->name;
    gpu.pci_device_id = asked.model->pci_device_id;
    gpu.compute_capability = asked.model->compute_capability;
    gpu.memory = mib(asked.model->memory_mib);
    gpu.capable = true;
    gpu.profiles = asked.model->profiles;
  }
  return gpus;
}

void complete_profiles(mig::GpuState& gpu) {
  const GpuModel* model = model_of(gpu.pci_device_id, gpu.name);
  if (model == nullptr) return;
  if (gpu.profiles.empty()) gpu.profiles = model->profiles;
  for (mig::Profile& profile : gpu.profiles)
    if (const mig::Profile* known = mig::find_profile(model->profiles, profile.id);
        known != nullptr && profile.placements.empty())
      profile.placements = known->placements;
}

}  // namespace tranche::gpu
