#include "gpu/inventory/models.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/problem.h"
#include "base/text.h"

namespace tranche::gpu {
namespace {

// From data/gpus (src/gpu/CMakeLists.txt), by name.
constexpr GpuModel kModels[] = {
#include "gpu_models.inc"
};
Gpu gpu_of(const GpuModel& model, std::uint32_t index) {
  Gpu gpu;
  gpu.uuid = fmt::format("GPU-{0:08x}-0000-4000-8000-{0:012x}", index);
  gpu.index = gpu.minor = index;
  gpu.name = model.name;
  gpu.pci_bus_id = fmt::format("00000000:{:02X}:00.0", index + 1);
  gpu.pci_class = model.pci_class;
  gpu.memory = mib(model.memory_mib);
  gpu.compute_capability = model.compute_capability;
  gpu.sm_count = model.sm_count;
  gpu.mig_capable = model.mig_capable;
  return gpu;
}

}  // namespace

std::optional<CountedModel> counted_model(std::string_view text) {
  const auto x = text.find('x');
  const auto count = x == std::string_view::npos ? std::nullopt : parse_unsigned(text.substr(0, x));
  if (!count) return std::nullopt;
  return CountedModel{static_cast<std::uint32_t>(std::min<std::uint64_t>(*count, kMostModelGpus + 1)),
                      text.substr(x + 1)};
}

std::span<const GpuModel> gpu_models() {
  return kModels;
}

const GpuModel* find_model(std::string_view profile) {
  const auto found = std::ranges::find(kModels, profile, &GpuModel::profile);
  return found == std::end(kModels) ? nullptr : found;
}

std::string known_models(std::string_view profile) {
  std::vector<std::string_view> names;
  for (const GpuModel& model : kModels) names.push_back(model.profile);
  std::string meant;
  for (const std::string_view name : names)  // "H100" is closer to H200 as a misspelling
    if (meant.empty() && profile.size() > 1 && same_in_any_case(profile, name.substr(0, profile.size()))) meant = name;
  if (meant.empty()) meant = did_you_mean(profile, names);
  return fmt::format("{}The models are {}", meant.empty() ? "" : "did you mean " + meant + "? ",
                     fmt::join(names, ", "));
}

bool names_model(std::string_view text) {
  return counted_model(text).has_value() || find_model(text) != nullptr;
}

Result<Inventory> inventory_of_model(std::string_view text) {
  const CountedModel asked = counted_model(text).value_or(CountedModel{1, text});
  const GpuModel* model = find_model(asked.model);
  if (model == nullptr)
    return fail(Kind::kInvalid,
                fmt::format("{} is not a known GPU model; {}", in_quotes(asked.model), known_models(asked.model)));
  if (asked.count < 1 || asked.count > kMostModelGpus)
    return fail(Kind::kInvalid, fmt::format("{} does not name 1 to {} GPUs", in_quotes(text), kMostModelGpus));
  Inventory inventory;
  inventory.driver_version = "580.159.04";
  inventory.cuda_driver_version = 13000;
  for (std::uint32_t i = 0; i < asked.count; ++i) inventory.gpus.push_back(gpu_of(*model, i));
  for (std::uint32_t a = 0; a < asked.count; ++a)
    for (std::uint32_t b = a + 1; b < asked.count; ++b) inventory.links.push_back({a, b, 50, 0});
  return inventory;
}

}  // namespace tranche::gpu
