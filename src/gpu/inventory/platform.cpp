#include "gpu/inventory/platform.h"

#include "base/text.h"

namespace tranche::gpu {

Platform platform_of(config::DiscoveryStrategy strategy, const PlatformSigns& signs) {
  using enum config::DiscoveryStrategy;
  // Under WSL the same library serves, so naming it does not change how a GPU is reached.
  if (strategy == kNvml) return signs.dxcore ? Platform::kWsl : Platform::kNvml;
  if (strategy == kTegra) return Platform::kTegra;
  if (signs.dxcore) return Platform::kWsl;
  if ((signs.tegra_system && !signs.nvml_loads) || signs.integrated_gpu) return Platform::kTegra;
  return Platform::kNvml;
}

bool is_tegra_family(std::string_view soc_family) {
  constexpr std::string_view kTegra = "tegra";
  return same_in_any_case(trimmed(soc_family).substr(0, kTegra.size()), kTegra);
}

bool is_integrated_gpu(std::string_view device_name) {
  return device_name.find("(nvgpu)") != std::string_view::npos ||
         device_name.find("NVIDIA Thor") != std::string_view::npos;
}

}  // namespace tranche::gpu
