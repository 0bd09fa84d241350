#pragma once
// Which platform a node is, decided from signs that gpu/platform collects: NVIDIA's rules for WSL and Tegra, which its
// device plugin serves as one device each. Pure.
#include <array>
#include <string_view>

#include "config/model.h"
#include "gpu/inventory/inventory.h"

namespace tranche::gpu {

// Where NVIDIA's device plugin searches for the management library, in its order, so that one driver-root setting fits
// both.
inline constexpr std::array kLibraryFolders{"/usr/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
                                            "/lib64",     "/lib/x86_64-linux-gnu",     "/lib/aarch64-linux-gnu"};

struct PlatformSigns {
  bool dxcore = false;          // libdxcore.so, which gives access to a GPU under WSL, can be loaded
  bool tegra_system = false;    // a Tegra release file, or a Tegra family of systems on chip
  bool nvml_loads = false;      // the management library can be loaded, with or without a driver
  bool integrated_gpu = false;  // it lists a GPU that is part of a Tegra chip
};

// `strategy`: `deviceDiscoveryStrategy`; a named one overrides the signs. kVfio, under which nothing is served, counts
// as kAuto. Without any sign the result is kNvml: the agent waits for a driver that is not installed yet.
Platform platform_of(config::DiscoveryStrategy strategy, const PlatformSigns& signs);

bool is_tegra_family(std::string_view soc_family);     // content of /sys/devices/soc0/family, in any case
bool is_integrated_gpu(std::string_view device_name);  // "Orin (nvgpu)", "NVIDIA Thor"

}  // namespace tranche::gpu
