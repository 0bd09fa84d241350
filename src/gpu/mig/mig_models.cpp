#include "gpu/mig/mig_models.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/problem.h"
#include "base/text.h"

namespace tranche::mig {
namespace {

using Engines = std::array<std::uint32_t, kEngineKinds>;

// A line of a table: id, name, at most, MiB, SMs, {copy, decoder, encoder, JPEG, optical flow}. 0 MiB or SMs: no source
// gives the figure.
struct Line {
  std::uint32_t id;
  const char* name;
  std::uint32_t at_most;
  std::uint64_t memory_mib;
  std::uint32_t sm_count;
  Engines engines;
};

// One for each `size` slices, up to the one that starts at `last`.
std::vector<Placement> placements_of(std::uint32_t size, std::uint32_t last) {
  std::vector<Placement> placements;
  for (std::uint32_t start = 0; start <= last; start += size) placements.push_back({start, size});
  return placements;
}

// The profiles of a GPU of four compute slices, where instances lie at each multiple of their size. grid: the memory
// slices, 4 on an A30, 12 on an RTX PRO 6000.
std::vector<Profile> table(std::uint32_t grid, std::initializer_list<Line> lines) {
  std::vector<Profile> profiles;
  for (const Line& line : lines) {
    const std::uint32_t slices = parse_profile_name(line.name).value_or(ProfileName{}).slices;
    const std::uint32_t size = grid / 4 * slices;
    profiles.push_back({line.id, line.name, slices, line.memory_mib, line.sm_count, line.at_most, line.engines,
                        placements_of(size, grid - size)});
  }
  return profiles;
}

// One of the seven profiles that each GPU of seven compute slices has, on a grid of eight memory slices. Generations
// differ in the engines.
struct Seventh {
  std::uint32_t id;
  const char* attributes;
  std::uint32_t slices;
  std::uint32_t at_most;
  std::uint32_t memory_slices;
  std::uint32_t last_start;
  Engines ampere, hopper, blackwell;
};
constexpr std::array<Seventh, 7> kSevenths{{
    {19, "", 1, 7, 1, 6, {1, 0, 0, 0, 0}, {1, 1, 0, 1, 0}, {2, 1, 0, 1, 0}},
    {20, "+me", 1, 1, 1, 6, {1, 1, 0, 1, 1}, {1, 1, 0, 1, 1}, {2, 1, 0, 1, 1}},
    {15, "", 1, 4, 2, 6, {1, 1, 0, 0, 0}, {1, 1, 0, 1, 0}, {2, 1, 0, 1, 0}},
    {14, "", 2, 3, 2, 4, {2, 1, 0, 0, 0}, {2, 2, 0, 2, 0}, {4, 2, 0, 2, 0}},
    {9, "", 3, 2, 4, 4, {3, 2, 0, 0, 0}, {3, 3, 0, 3, 0}, {6, 3, 0, 3, 0}},
    {5, "", 4, 1, 4, 0, {4, 2, 0, 0, 0}, {4, 4, 0, 4, 0}, {8, 4, 0, 4, 0}},
    {0, "", 7, 1, 8, 0, {7, 5, 0, 1, 1}, {8, 7, 0, 7, 1}, {16, 7, 0, 7, 1}},
}};

// Of 1g, the larger 1g, 2g, 3g, 4g and 7g: the figure in the name, MiB, SMs. 1g+me is as large as 1g.
struct Size {
  std::uint32_t gigabytes;
  std::uint64_t memory_mib;
  std::uint32_t sm_count;
};
using Sizes = std::array<Size, kSevenths.size() - 1>;
constexpr Sizes kA100With40{
    {{5, 4864, 14}, {10, 9856, 14}, {10, 9856, 28}, {20, 19968, 42}, {20, 19968, 56}, {40, 40192, 98}}};
constexpr Sizes kA100With80{
    {{10, 9728, 14}, {20, 19968, 14}, {20, 19968, 28}, {40, 40192, 42}, {40, 40192, 56}, {80, 80896, 98}}};
constexpr Sizes kH100With80{
    {{10, 9984, 16}, {20, 20096, 26}, {20, 20096, 32}, {40, 40448, 60}, {40, 40448, 64}, {80, 81152, 132}}};
constexpr Sizes kH100Pcie{
    {{10, 9984, 14}, {20, 20096, 14}, {20, 20096, 30}, {40, 40448, 46}, {40, 40448, 62}, {80, 81152, 114}}};
constexpr Sizes kH100With94{
    {{12, 11008, 16}, {24, 22144, 26}, {24, 22144, 32}, {47, 47488, 60}, {47, 47488, 64}, {94, 95360, 132}}};
constexpr Sizes kH100With96{
    {{12, 11264, 16}, {24, 23552, 26}, {24, 23552, 32}, {48, 47616, 60}, {48, 47616, 64}, {96, 95232, 132}}};
constexpr Sizes kH200{
    {{18, 16384, 16}, {35, 33280, 26}, {35, 33280, 32}, {71, 71424, 60}, {71, 71424, 64}, {141, 143360, 132}}};
constexpr Sizes kB200{
    {{23, 20992, 18}, {45, 45312, 30}, {45, 45312, 36}, {90, 91136, 70}, {90, 91136, 72}, {180, 182784, 148}}};
constexpr Sizes kGb200{{{23, 22528, 18}, {47, 46592, 32}, {47, 46592, 38}, {93, 0, 0}, {93, 0, 0}, {186, 0, 0}}};

std::vector<Profile> sevenths(Engines Seventh::* generation, const Sizes& sizes) {
  std::vector<Profile> profiles;
  for (std::size_t i = 0; i < kSevenths.size(); ++i) {
    const Seventh& one = kSevenths.at(i);
    const Size& size = sizes.at(i == 0 ? 0 : i - 1);
    profiles.push_back({one.id, to_string(ProfileName{one.slices, one.slices, size.gigabytes, one.attributes}),
                        one.slices, size.memory_mib, size.sm_count, one.at_most, one.*generation,
                        placements_of(one.memory_slices, one.last_start)});
  }
  return profiles;
}

std::vector<Profile> a30() {
  return table(4, {{14, "1g.6gb", 4, 5952, 14, {1, 0, 0, 0, 0}},
                   {21, "1g.6gb+me", 1, 5952, 14, {1, 1, 0, 1, 1}},
                   {5, "2g.12gb", 2, 11968, 28, {2, 2, 0, 0, 0}},
                   {6, "2g.12gb+me", 1, 11968, 28, {2, 2, 0, 1, 1}},
                   {0, "4g.24gb", 1, 24000, 56, {4, 4, 0, 1, 1}}});
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

constexpr std::uint64_t kMostGpus = 16;

}  // namespace

const std::vector<Model>& models() {
  constexpr auto kAmpere = &Seventh::ampere, kHopper = &Seventh::hopper, kBlackwell = &Seventh::blackwell;
  static const std::vector<Model> all = {
      {"A100-PCIE-40GB", "NVIDIA A100-PCIE-40GB", 0x20F110DE, 40960, {8, 0}, 8, sevenths(kAmpere, kA100With40)},
      {"A100-SXM4-40GB", "NVIDIA A100-SXM4-40GB", 0x20B010DE, 40960, {8, 0}, 8, sevenths(kAmpere, kA100With40)},
      {"A100-PCIE-80GB", "NVIDIA A100 80GB PCIe", 0x20B510DE, 81920, {8, 0}, 8, sevenths(kAmpere, kA100With80)},
      {"A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB", 0x20B210DE, 81920, {8, 0}, 8, sevenths(kAmpere, kA100With80)},
      {"A30", "NVIDIA A30", 0x20B710DE, 24576, {8, 0}, 4, a30()},
      {"H100-SXM5-80GB", "NVIDIA H100 80GB HBM3", 0x233010DE, 81559, {9, 0}, 8, sevenths(kHopper, kH100With80)},
      {"H100-PCIE-80GB", "NVIDIA H100 PCIe", 0x233110DE, 81559, {9, 0}, 8, sevenths(kHopper, kH100Pcie)},
      {"H100-NVL", "NVIDIA H100 NVL", 0x232110DE, 95830, {9, 0}, 8, sevenths(kHopper, kH100With94)},
      {"H100-SXM5-96GB", "NVIDIA H100 SXM5 96GB", 0x233D10DE, 98304, {9, 0}, 8, sevenths(kHopper, kH100With96)},
      {"H200", "NVIDIA H200", 0x233510DE, 143771, {9, 0}, 8, sevenths(kHopper, kH200)},
      {"B200", "NVIDIA B200", 0x290110DE, 183359, {10, 0}, 8, sevenths(kBlackwell, kB200)},
      {"GB200", "NVIDIA GB200", 0x294110DE, 189471, {10, 0}, 8, sevenths(kBlackwell, kGb200)},
      {"RTX-PRO-6000", "NVIDIA RTX PRO 6000 Blackwell Server Edition", 0x2BB510DE, 97887, {12, 0}, 12, rtx_pro_6000()},
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
