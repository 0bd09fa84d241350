#pragma once
// Which platform a node is, decided from what was seen on it (gpu/platform looks): NVIDIA's rules for WSL and Tegra,
// which its device plugin serves as one device each. Pure.
#include <string_view>

#include "gpu/inventory/inventory.h"

namespace tranche::inventory {

// `deviceDiscoveryStrategy`: a named one is taken at its word, so that a person can overrule the signs.
enum class Discovery { kAuto, kNvml, kTegra };

struct PlatformSigns {
  bool dxcore = false;          // libdxcore.so, the way to a GPU under WSL, can be loaded
  bool tegra_system = false;    // a Tegra release file, or a family of systems on chip that is Tegra's
  bool nvml_loads = false;      // the management library can be loaded, whether or not a driver stands behind it
  bool integrated_gpu = false;  // it lists a GPU that is part of a Tegra chip
};

// Nothing seen at all gives kNvml: the driver that is not there yet is waited for.
Platform platform_of(Discovery discovery, const PlatformSigns& signs);

bool is_tegra_family(std::string_view soc_family);     // content of /sys/devices/soc0/family, in any case
bool is_integrated_gpu(std::string_view device_name);  // "Orin (nvgpu)", "NVIDIA Thor"

}  // namespace tranche::inventory
