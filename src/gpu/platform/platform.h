#pragma once
// Which platform a node is: NVIDIA's rules for WSL and Tegra, which its device plugin serves as one device each, and
// the signs that decide it, from files and libraries of the system. Also finds the driver's libraries: under the driver
// root in the folders that NVIDIA's programs use, with links resolved inside that root, else through the loader.
// Blocking file access and dlopen; no thread affinity.
#include <array>
#include <string>
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

// The file behind `soname` under the driver root; "" if there is none, or if the root is "" or "/": the loader then
// finds the library by its bare name.
std::string library_in_root(const std::string& driver_root, const std::string& soname);

bool library_loads(const std::string& driver_root, const std::string& soname);  // opens and closes it

// Sets dxcore and tegra_system. The files are looked up under the driver root, as NVIDIA's plugin does, and under
// `system_root`, as its other programs do.
PlatformSigns look_for_signs(const std::string& driver_root, const std::string& system_root);

}  // namespace tranche::gpu
