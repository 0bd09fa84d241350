#include "gpu/inventory/inventory.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <ranges>
#include <utility>

#include "base/text.h"

namespace tranche::gpu {
namespace {

std::string profiles_of(const Gpu& gpu) {
  return gpu.mig_devices.empty() ? "none" : join(gpu.mig_devices, ", ", &MigDevice::profile);
}

void compare_gpu(const Gpu& before, const Gpu& after, std::vector<std::string>& out) {
  const std::string name = name_of(after);
  const std::size_t already = out.size();
  if (before.index != after.index) out.push_back(fmt::format("{} had index {} before", name, before.index));
  if (before.mig_enabled != after.mig_enabled)
    out.push_back(fmt::format("{} has MIG {} now", name, after.mig_enabled ? "on" : "off"));
  if (before.mig_devices != after.mig_devices)
    out.push_back(
        fmt::format("{} has other MIG devices: {} before, {} now", name, profiles_of(before), profiles_of(after)));
  if (before.compute_mode != after.compute_mode)
    out.push_back(fmt::format("{} is in compute mode {}, and was in {}", name, to_string(after.compute_mode),
                              to_string(before.compute_mode)));
  if (already == out.size() && before != after) out.push_back(fmt::format("{} describes itself differently", name));
}

constexpr std::size_t kMostQuoted = 3;
constexpr std::uint64_t kMostMinor = (1u << 20) - 1;  // the largest minor on Linux
constexpr std::uint64_t kMostInstance = 0xffff;       // far beyond any GPU, and safe in arithmetic

using Nodes = std::map<std::array<std::uint32_t, 3>, std::uint32_t>;  // (GPU minor, GI, CI or kNoInstance) → n

// "gpu0/gi7/access" or "gpu0/gi7/ci1/access".
bool read_instance(std::string_view name, std::uint32_t minor, Nodes& nodes) {
  constexpr std::array<std::string_view, 3> kPrefixes{"gpu", "gi", "ci"};
  const auto pieces = split(name, '/');
  if (pieces.size() < 3 || pieces.size() > 4 || pieces.back() != "access") return false;
  std::array<std::uint32_t, 3> key{0, 0, kNoInstance};
  for (std::size_t i = 0; i + 1 < pieces.size(); ++i) {
    const auto [prefix, piece] = std::pair(kPrefixes.at(i), pieces[i]);
    const auto number = piece.starts_with(prefix) ? parse_unsigned(piece.substr(prefix.size())) : std::nullopt;
    if (!number || *number > kMostInstance) return false;
    key.at(i) = static_cast<std::uint32_t>(*number);
  }
  nodes[key] = minor;
  return true;
}

bool read_line(std::string_view line, Nodes& nodes) {
  const auto words = words_of(line);
  if (words.size() != 2) return false;
  const auto number = parse_unsigned(words[1]);
  if (!number || *number > kMostMinor) return false;
  if (words[0] == "config" || words[0] == "monitor") return true;  // give access to no instance
  return read_instance(words[0], static_cast<std::uint32_t>(*number), nodes);
}

}  // namespace

const Gpu* find_gpu(const Inventory& inventory, std::string_view uuid) {
  const auto found = std::ranges::find(inventory.gpus, uuid, &Gpu::uuid);
  return found == inventory.gpus.end() ? nullptr : &*found;
}

std::string name_of(const Gpu& gpu) {
  return fmt::format("GPU {} ({})", gpu.index, gpu.uuid);
}

std::string name_of(const Gpu& gpu, const MigDevice& mig) {
  return fmt::format("MIG device {}:{} ({})", gpu.index, mig.slot, mig.uuid);
}

bool is_display_gpu(const Gpu& gpu) {
  return gpu.name == "DGX Display" || gpu.name == "NVIDIA DGX Display";
}

std::string sysfs_address(std::string_view nvml_bus_id) {
  // <domain>:<bus>:<device>.<function>; the kernel writes a domain of at least four digits, NVML always eight.
  const auto dot = std::min(nvml_bus_id.find('.'), nvml_bus_id.size());
  const auto parts = split(nvml_bus_id.substr(0, dot), ':');
  if (dot == nvml_bus_id.size() || parts.size() != 3) return {};
  const auto domain = parse_unsigned(parts[0], 16), bus = parse_unsigned(parts[1], 16);
  const auto device = parse_unsigned(parts[2], 16), function = parse_unsigned(nvml_bus_id.substr(dot + 1), 16);
  if (!domain || !bus || !device || !function) return {};
  if (*domain > 0xffffffff || *bus > 0xff || *device > 0xff || *function > 0xf) return {};
  return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", *domain, *bus, *device, *function);
}

std::string_view architecture_of(ComputeCapability capability) {
  // By the first capability of each; what lies between two is of the former, with the same major number.
  static constexpr std::pair<ComputeCapability, std::string_view> kArchitectures[] = {
      {{13, 0}, "Rubin"}, {{12, 0}, "Blackwell"}, {{10, 0}, "Blackwell"}, {{9, 0}, "Hopper"}, {{8, 9}, "Ada Lovelace"},
      {{8, 0}, "Ampere"}, {{7, 5}, "Turing"},     {{7, 0}, "Volta"},      {{6, 0}, "Pascal"}, {{5, 0}, "Maxwell"},
      {{3, 0}, "Kepler"}, {{2, 0}, "Fermi"},      {{1, 0}, "Tesla"}};
  for (const auto& [first, name] : kArchitectures)
    if (first.major == capability.major && first.minor <= capability.minor) return name;
  return {};
}

// Cores per SM by architecture, from NVIDIA's CUDA programming guide (arithmetic units for 32-bit floating point).
std::uint32_t sm_count_from_cores(std::uint32_t cores, ComputeCapability capability) {
  static constexpr ComputeCapability kWith64[] = {{6, 0}, {7, 0}, {7, 2}, {7, 5}, {8, 0}};
  static constexpr ComputeCapability kWith128[] = {{5, 0}, {5, 2}, {5, 3}, {6, 1},  {6, 2},  {8, 6},
                                                   {8, 7}, {8, 9}, {9, 0}, {10, 0}, {10, 3}, {12, 0}};
  if (std::ranges::find(kWith64, capability) != std::end(kWith64)) return cores / 64;
  return std::ranges::find(kWith128, capability) != std::end(kWith128) ? cores / 128 : 0;
}

std::vector<GpuLink> links_among(const std::vector<Gpu>& gpus, std::initializer_list<const Inventory*> sources) {
  std::map<std::string_view, std::uint32_t> position;
  for (std::uint32_t i = 0; i < gpus.size(); ++i) position[gpus[i].uuid] = i;
  std::map<std::pair<std::uint32_t, std::uint32_t>, GpuLink> links;
  for (const Inventory* source : sources) {
    for (const GpuLink& link : source->links) {
      if (link.a >= source->gpus.size() || link.b >= source->gpus.size()) continue;
      const auto a = position.find(source->gpus[link.a].uuid);
      const auto b = position.find(source->gpus[link.b].uuid);
      if (a == position.end() || b == position.end()) continue;
      const auto [low, high] = std::minmax(a->second, b->second);
      links[{low, high}] = {low, high, link.pcie_level, link.nvlinks};
    }
  }
  const auto all = links | std::views::values;
  return {all.begin(), all.end()};
}

Kept keep_missing(const Inventory& before, const Inventory& scanned,
                  const std::function<bool(const Gpu& gpu)>& is_pulled) {
  Kept kept{scanned, {}};
  if (before.platform != scanned.platform) return kept;  // no device of it is the same
  for (const Gpu& gpu : before.gpus) {
    if (find_gpu(scanned, gpu.uuid) != nullptr || is_pulled(gpu)) continue;
    kept.missing.push_back(gpu.uuid);
    kept.inventory.gpus.push_back(gpu);
  }
  if (kept.missing.empty()) return kept;
  std::ranges::stable_sort(kept.inventory.gpus, {}, &Gpu::index);

  kept.inventory.links = links_among(kept.inventory.gpus, {&before, &scanned});
  return kept;
}

std::vector<std::string> changes(const Inventory& before, const Inventory& after) {
  std::vector<std::string> out;
  if (before.platform != after.platform)
    out.push_back(
        fmt::format("the platform is {} now, and was {}", to_string(after.platform), to_string(before.platform)));
  if (before.driver_version != after.driver_version)
    out.push_back(fmt::format("the driver is {} now, and was {}", after.driver_version, before.driver_version));
  if (before.cuda_driver_version != after.cuda_driver_version)
    out.push_back(fmt::format("the driver offers CUDA {}.{} now", after.cuda_driver_version / 1000,
                              after.cuda_driver_version % 1000 / 10));
  for (const Gpu& gpu : before.gpus)
    if (find_gpu(after, gpu.uuid) == nullptr) out.push_back(fmt::format("{}, {}, is gone", name_of(gpu), gpu.name));
  for (const Gpu& gpu : after.gpus) {
    if (const Gpu* old = find_gpu(before, gpu.uuid))
      compare_gpu(*old, gpu, out);
    else
      out.push_back(fmt::format("{}, {}, is new", name_of(gpu), gpu.name));
  }
  for (const auto list : {&Inventory::unreadable, &Inventory::doubts})
    for (const std::string& sentence : after.*list)
      if (std::ranges::find(before.*list, sentence) == (before.*list).end()) out.push_back(sentence);
  if (out.empty() && before.links != after.links) out.push_back("the links between GPUs are different");
  if (out.empty() && before != after) out.push_back("the driver says more or less of its GPUs than before");
  return out;
}

void set_mig_nodes(std::string_view table, const std::string& path, Inventory& inventory) {
  Nodes nodes;
  std::size_t number = 0, bad = 0;
  for (const std::string_view line : lines_of(table)) {
    ++number;
    if (trimmed(line).empty() || read_line(line, nodes)) continue;
    if (++bad <= kMostQuoted)
      inventory.doubts.push_back(fmt::format(
          "{}: line {} is {}, which is neither a GPU instance's node (gpu0/gi1/access 12) nor config or monitor", path,
          number, in_quotes(line)));
  }
  if (bad > kMostQuoted) inventory.doubts.push_back(fmt::format("{}: {} lines are not understood", path, bad));
  const auto node_of = [&](std::uint32_t gpu_minor, std::uint32_t gi, std::uint32_t ci) {
    const auto found = nodes.find({gpu_minor, gi, ci});
    return found == nodes.end() ? std::nullopt : std::optional(found->second);
  };
  for (Gpu& gpu : inventory.gpus) {
    for (MigDevice& mig : gpu.mig_devices) {
      mig.gi_cap = node_of(gpu.minor, mig.gpu_instance, kNoInstance);
      mig.ci_cap = node_of(gpu.minor, mig.gpu_instance, mig.compute_instance);
      if (!mig.gi_cap || !mig.ci_cap)
        inventory.doubts.push_back(name_of(gpu, mig) + ": " + path + " does not list the device nodes that open it");
    }
  }
}

}  // namespace tranche::gpu
