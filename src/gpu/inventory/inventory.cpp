#include "gpu/inventory/inventory.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace tranche::inventory {

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
  constexpr std::string_view kTail = "#:##:##.#";  // # = a hexadecimal digit; the domain's other digits stand before
  if (nvml_bus_id.size() < kTail.size() + 3 || nvml_bus_id.size() > kTail.size() + 7) return {};
  std::string address(nvml_bus_id);
  const std::size_t tail = address.size() - kTail.size();
  for (std::size_t i = 0; i < address.size(); ++i) {
    char& c = address[i];
    c = to_lower(c);
    const bool digit = is_digit(c) || (c >= 'a' && c <= 'f');
    const char wanted = i < tail ? '#' : kTail[i - tail];
    if (wanted == '#' ? !digit : c != wanted) return {};
  }
  std::size_t spare = tail - 3;
  while (spare > 0 && address.front() == '0') {
    address.erase(0, 1);
    --spare;
  }
  return address;
}

// Cores per SM by architecture, from NVIDIA's CUDA programming guide (arithmetic units for 32-bit floating point).
std::uint32_t sm_count_from_cores(std::uint32_t cores, ComputeCapability capability) {
  struct Row {
    ComputeCapability capability;
    std::uint32_t cores_per_sm;
  };
  static constexpr std::array<Row, 17> kRows{{
      {{5, 0}, 128},
      {{5, 2}, 128},
      {{5, 3}, 128},
      {{6, 0}, 64},
      {{6, 1}, 128},
      {{6, 2}, 128},
      {{7, 0}, 64},
      {{7, 2}, 64},
      {{7, 5}, 64},
      {{8, 0}, 64},
      {{8, 6}, 128},
      {{8, 7}, 128},
      {{8, 9}, 128},
      {{9, 0}, 128},
      {{10, 0}, 128},
      {{10, 3}, 128},
      {{12, 0}, 128},
  }};
  const auto found = std::ranges::find(kRows, capability, &Row::capability);
  return found == kRows.end() ? 0 : cores / found->cores_per_sm;
}

}  // namespace tranche::inventory
