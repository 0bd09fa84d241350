#include "gpu/inventory/inventory.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace tranche::gpu {

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

}  // namespace tranche::gpu
