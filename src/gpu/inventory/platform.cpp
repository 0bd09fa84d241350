#include "gpu/inventory/platform.h"

#include <algorithm>

#include "base/text.h"

namespace tranche::inventory {

Platform platform_of(Discovery discovery, const PlatformSigns& signs) {
  // Under WSL the same library serves, so naming it does not change how a GPU is reached.
  if (discovery == Discovery::kNvml) return signs.dxcore ? Platform::kWsl : Platform::kNvml;
  if (discovery == Discovery::kTegra) return Platform::kTegra;
  if (signs.dxcore) return Platform::kWsl;
  if ((signs.tegra_system && !signs.nvml_loads) || signs.integrated_gpu) return Platform::kTegra;
  return Platform::kNvml;
}

bool is_tegra_family(std::string_view soc_family) {
  constexpr std::string_view kTegra = "tegra";
  const std::string_view text = trimmed(soc_family);
  return text.size() >= kTegra.size() && std::equal(kTegra.begin(), kTegra.end(), text.begin(), [](char a, char b) {
           return a == (b >= 'A' && b <= 'Z' ? static_cast<char>(b - 'A' + 'a') : b);
         });
}

bool is_integrated_gpu(std::string_view device_name) {
  return device_name.find("(nvgpu)") != std::string_view::npos ||
         device_name.find("NVIDIA Thor") != std::string_view::npos;
}

}  // namespace tranche::inventory
