#include "gpu/mig/mig_models.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/problem.h"
#include "base/text.h"

namespace tranche::mig {
namespace {

// A line of a table: id, name, at most, MiB, SMs, {copy, decoder, encoder, JPEG, optical flow}. 0 MiB or SMs: no source
// gives the figure.
struct Line {
  std::uint32_t id;
  const char* name;
  std::uint32_t at_most;
  std::uint64_t memory_mib;
  std::uint32_t sm_count;
  std::array<std::uint32_t, kEngineKinds> engines;
};

// The placements of a profile follow from its number and the grid: eight memory slices on GPUs of seven compute slices,
// four on an A30, twelve on an RTX PRO 6000.
std::vector<Placement> placements_of(std::uint32_t grid, std::uint32_t id) {
  std::vector<std::uint32_t> starts;
  std::uint32_t size = grid;
  if (grid == 8) {
    if (id == 19 || id == 20) size = 1, starts = {0, 1, 2, 3, 4, 5, 6};
    if (id == 15) size = 2, starts = {0, 2, 4, 6};
    if (id == 14) size = 2, starts = {0, 2, 4};
    if (id == 9) size = 4, starts = {0, 4};
    if (id == 5) size = 4, starts = {0};
    if (id == 0) size = 8, starts = {0};
  } else {
    const std::uint32_t quarter = grid / 4;
    size = id == 0 || id == 32 ? grid : id == 5 || id == 6 || id == 35 || id == 64 || id == 66 ? grid / 2 : quarter;
    for (std::uint32_t start = 0; start < grid; start += size) starts.push_back(start);
  }
  std::vector<Placement> placements;
  for (const std::uint32_t start : starts) placements.push_back({start, size});
  return placements;
}

std::vector<Profile> table(std::uint32_t grid, std::initializer_list<Line> lines) {
  std::vector<Profile> profiles;
  for (const Line& line : lines) {
    const auto name = parse_profile_name(line.name);
    profiles.push_back({line.id,
                        line.name,
                        name ? name->slices : 0,
                        line.memory_mib,
                        line.sm_count,
                        line.at_most,
                        line.engines,
                        placements_of(grid, line.id),
                        {}});
  }
  return profiles;
}

std::vector<Profile> a100_40() {
  return table(8, {{19, "1g.5gb", 7, 4864, 14, {1, 0, 0, 0, 0}},
                   {20, "1g.5gb+me", 1, 4864, 14, {1, 1, 0, 1, 1}},
                   {15, "1g.10gb", 4, 9856, 14, {1, 1, 0, 0, 0}},
                   {14, "2g.10gb", 3, 9856, 28, {2, 1, 0, 0, 0}},
                   {9, "3g.20gb", 2, 19968, 42, {3, 2, 0, 0, 0}},
                   {5, "4g.20gb", 1, 19968, 56, {4, 2, 0, 0, 0}},
                   {0, "7g.40gb", 1, 40192, 98, {7, 5, 0, 1, 1}}});
}

std::vector<Profile> a100_80() {
  return table(8, {{19, "1g.10gb", 7, 9728, 14, {1, 0, 0, 0, 0}},
                   {20, "1g.10gb+me", 1, 9728, 14, {1, 1, 0, 1, 1}},
                   {15, "1g.20gb", 4, 19968, 14, {1, 1, 0, 0, 0}},
                   {14, "2g.20gb", 3, 19968, 28, {2, 1, 0, 0, 0}},
                   {9, "3g.40gb", 2, 40192, 42, {3, 2, 0, 0, 0}},
                   {5, "4g.40gb", 1, 40192, 56, {4, 2, 0, 0, 0}},
                   {0, "7g.80gb", 1, 80896, 98, {7, 5, 0, 1, 1}}});
}

std::vector<Profile> a30() {
  return table(4, {{14, "1g.6gb", 4, 5952, 14, {1, 0, 0, 0, 0}},
                   {21, "1g.6gb+me", 1, 5952, 14, {1, 1, 0, 1, 1}},
                   {5, "2g.12gb", 2, 11968, 28, {2, 2, 0, 0, 0}},
                   {6, "2g.12gb+me", 1, 11968, 28, {2, 2, 0, 1, 1}},
                   {0, "4g.24gb", 1, 24000, 56, {4, 4, 0, 1, 1}}});
}

std::vector<Profile> h100_80() {
  return table(8, {{19, "1g.10gb", 7, 9984, 16, {1, 1, 0, 1, 0}},
                   {20, "1g.10gb+me", 1, 9984, 16, {1, 1, 0, 1, 1}},
                   {15, "1g.20gb", 4, 20096, 26, {1, 1, 0, 1, 0}},
                   {14, "2g.20gb", 3, 20096, 32, {2, 2, 0, 2, 0}},
                   {9, "3g.40gb", 2, 40448, 60, {3, 3, 0, 3, 0}},
                   {5, "4g.40gb", 1, 40448, 64, {4, 4, 0, 4, 0}},
                   {0, "7g.80gb", 1, 81152, 132, {8, 7, 0, 7, 1}}});
}

std::vector<Profile> h100_pcie() {
  return table(8, {{19, "1g.10gb", 7, 9984, 14, {1, 1, 0, 1, 0}},
                   {20, "1g.10gb+me", 1, 9984, 14, {1, 1, 0, 1, 1}},
                   {15, "1g.20gb", 4, 20096, 14, {1, 1, 0, 1, 0}},
                   {14, "2g.20gb", 3, 20096, 30, {2, 2, 0, 2, 0}},
                   {9, "3g.40gb", 2, 40448, 46, {3, 3, 0, 3, 0}},
                   {5, "4g.40gb", 1, 40448, 62, {4, 4, 0, 4, 0}},
                   {0, "7g.80gb", 1, 81152, 114, {8, 7, 0, 7, 1}}});
}

std::vector<Profile> h100_94() {
  return table(8, {{19, "1g.12gb", 7, 11008, 16, {1, 1, 0, 1, 0}},
                   {20, "1g.12gb+me", 1, 11008, 16, {1, 1, 0, 1, 1}},
                   {15, "1g.24gb", 4, 22144, 26, {1, 1, 0, 1, 0}},
                   {14, "2g.24gb", 3, 22144, 32, {2, 2, 0, 2, 0}},
                   {9, "3g.47gb", 2, 47488, 60, {3, 3, 0, 3, 0}},
                   {5, "4g.47gb", 1, 47488, 64, {4, 4, 0, 4, 0}},
                   {0, "7g.94gb", 1, 95360, 132, {8, 7, 0, 7, 1}}});
}

std::vector<Profile> h100_96() {
  return table(8, {{19, "1g.12gb", 7, 11264, 16, {1, 1, 0, 1, 0}},
                   {20, "1g.12gb+me", 1, 11264, 16, {1, 1, 0, 1, 1}},
                   {15, "1g.24gb", 4, 23552, 26, {1, 1, 0, 1, 0}},
                   {14, "2g.24gb", 3, 23552, 32, {2, 2, 0, 2, 0}},
                   {9, "3g.48gb", 2, 47616, 60, {3, 3, 0, 3, 0}},
                   {5, "4g.48gb", 1, 47616, 64, {4, 4, 0, 4, 0}},
                   {0, "7g.96gb", 1, 95232, 132, {8, 7, 0, 7, 1}}});
}

std::vector<Profile> h200() {
  return table(8, {{19, "1g.18gb", 7, 16384, 16, {1, 1, 0, 1, 0}},
                   {20, "1g.18gb+me", 1, 16384, 16, {1, 1, 0, 1, 1}},
                   {15, "1g.35gb", 4, 33280, 26, {1, 1, 0, 1, 0}},
                   {14, "2g.35gb", 3, 33280, 32, {2, 2, 0, 2, 0}},
                   {9, "3g.71gb", 2, 71424, 60, {3, 3, 0, 3, 0}},
                   {5, "4g.71gb", 1, 71424, 64, {4, 4, 0, 4, 0}},
                   {0, "7g.141gb", 1, 143360, 132, {8, 7, 0, 7, 1}}});
}

std::vector<Profile> b200() {
  return table(8, {{19, "1g.23gb", 7, 20992, 18, {2, 1, 0, 1, 0}},
                   {20, "1g.23gb+me", 1, 20992, 18, {2, 1, 0, 1, 1}},
                   {15, "1g.45gb", 4, 45312, 30, {2, 1, 0, 1, 0}},
                   {14, "2g.45gb", 3, 45312, 36, {4, 2, 0, 2, 0}},
                   {9, "3g.90gb", 2, 91136, 70, {6, 3, 0, 3, 0}},
                   {5, "4g.90gb", 1, 91136, 72, {8, 4, 0, 4, 0}},
                   {0, "7g.180gb", 1, 182784, 148, {16, 7, 0, 7, 1}}});
}

std::vector<Profile> gb200() {
  return table(8, {{19, "1g.23gb", 7, 22528, 18, {2, 1, 0, 1, 0}},
                   {20, "1g.23gb+me", 1, 22528, 18, {2, 1, 0, 1, 1}},
                   {15, "1g.47gb", 4, 46592, 32, {2, 1, 0, 1, 0}},
                   {14, "2g.47gb", 3, 46592, 38, {4, 2, 0, 2, 0}},
                   {9, "3g.93gb", 2, 0, 0, {6, 3, 0, 3, 0}},
                   {5, "4g.93gb", 1, 0, 0, {8, 4, 0, 4, 0}},
                   {0, "7g.186gb", 1, 0, 0, {16, 7, 0, 7, 1}}});
}

std::vector<Profile> rtx_pro_6000() {
  return table(12, {{14, "1g.24gb", 4, 24192, 46, {1, 1, 1, 1, 0}},
                    {21, "1g.24gb+me", 1, 24192, 46, {1, 1, 1, 1, 1}},
                    {47, "1g.24gb+gfx", 4, 24192, 46, {1, 1, 1, 1, 0}},
                    {65, "1g.24gb+me.all", 1, 24192, 46, {1, 4, 4, 4, 1}},
                    {67, "1g.24gb-me", 4, 24192, 46, {1, 0, 0, 0, 0}},
                    {5, "2g.48gb", 2, 48512, 94, {2, 2, 2, 2, 0}},
                    {35, "2g.48gb+gfx", 2, 48512, 94, {2, 2, 2, 2, 0}},
                    {64, "2g.48gb+me.all", 1, 48512, 94, {2, 4, 4, 4, 1}},
                    {66, "2g.48gb-me", 2, 48512, 94, {2, 0, 0, 0, 0}},
                    {0, "4g.96gb", 1, 97408, 188, {4, 4, 4, 4, 1}},
                    {32, "4g.96gb+gfx", 1, 97408, 188, {4, 4, 4, 4, 1}}});
}

std::vector<Model> all_models() {
  return {
      {"A100-PCIE-40GB", "NVIDIA A100-PCIE-40GB", 0x20F110DE, 40960, {8, 0}, 8, a100_40()},
      {"A100-SXM4-40GB", "NVIDIA A100-SXM4-40GB", 0x20B010DE, 40960, {8, 0}, 8, a100_40()},
      {"A100-PCIE-80GB", "NVIDIA A100 80GB PCIe", 0x20B510DE, 81920, {8, 0}, 8, a100_80()},
      {"A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB", 0x20B210DE, 81920, {8, 0}, 8, a100_80()},
      {"A30", "NVIDIA A30", 0x20B710DE, 24576, {8, 0}, 4, a30()},
      {"H100-SXM5-80GB", "NVIDIA H100 80GB HBM3", 0x233010DE, 81559, {9, 0}, 8, h100_80()},
      {"H100-PCIE-80GB", "NVIDIA H100 PCIe", 0x233110DE, 81559, {9, 0}, 8, h100_pcie()},
      {"H100-NVL", "NVIDIA H100 NVL", 0x232110DE, 95830, {9, 0}, 8, h100_94()},
      {"H100-SXM5-96GB", "NVIDIA H100 SXM5 96GB", 0x233D10DE, 98304, {9, 0}, 8, h100_96()},
      {"H200", "NVIDIA H200", 0x233510DE, 143771, {9, 0}, 8, h200()},
      {"B200", "NVIDIA B200", 0x290110DE, 183359, {10, 0}, 8, b200()},
      {"GB200", "NVIDIA GB200", 0x294110DE, 189471, {10, 0}, 8, gb200()},
      {"RTX-PRO-6000", "NVIDIA RTX PRO 6000 Blackwell Server Edition", 0x2BB510DE, 97887, {12, 0}, 12, rtx_pro_6000()},
  };
}

constexpr std::uint64_t kMostGpus = 16;

}  // namespace

const std::vector<Model>& models() {
  static const std::vector<Model> all = all_models();
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
  std::uint64_t count = 1;
  std::string_view key = text;
  if (const auto x = text.find('x'); x != std::string_view::npos && find_model(text) == nullptr) {
    const auto number = parse_unsigned(text.substr(0, x));
    if (number) count = *number, key = text.substr(x + 1);
  }
  const Model* model = find_model(key);
  if (model == nullptr) {
    std::vector<std::string_view> keys;
    for (const Model& one : models()) keys.push_back(one.key);
    const std::string meant = did_you_mean(key, keys);
    return fail(Kind::kInvalid,
                fmt::format("{} is not a GPU model with known MIG profiles; {}the models are {}", in_quotes(key),
                            meant.empty() ? "" : "did you mean " + meant + "? ", fmt::join(keys, ", ")));
  }
  if (count < 1 || count > kMostGpus)
    return fail(Kind::kInvalid, fmt::format("{} does not name 1 to {} GPUs", in_quotes(text), kMostGpus));
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
