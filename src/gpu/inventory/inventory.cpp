#include "gpu/inventory/inventory.h"

#include <algorithm>
#include <array>

#include "base/enum_names.h"

namespace tranche::inventory {

std::string_view to_string(Platform platform) {
  return enum_name<Platform::kTegra>(platform, {"nvml", "wsl", "tegra"});
}

std::string_view to_string(ComputeMode mode) {
  return enum_name<ComputeMode::kExclusiveProcess>(mode,
                                                   {"DEFAULT", "EXCLUSIVE_THREAD", "PROHIBITED", "EXCLUSIVE_PROCESS"});
}

const Gpu* find_gpu(const Inventory& inventory, std::string_view uuid) {
  const auto found = std::ranges::find(inventory.gpus, uuid, &Gpu::uuid);
  return found == inventory.gpus.end() ? nullptr : &*found;
}

bool is_display_gpu(const Gpu& gpu) {
  return gpu.name == "DGX Display" || gpu.name == "NVIDIA DGX Display";
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
