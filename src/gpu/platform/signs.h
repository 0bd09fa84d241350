#pragma once
// Signs of the kind of system, from its files and libraries; platform_of decides from them. Also finds the
// driver's libraries: under the driver root in the folders that NVIDIA's programs use, with links resolved inside that
// root, else through the loader. Blocking file access and dlopen; no thread affinity.
#include <string>

#include "gpu/inventory/platform.h"

namespace tranche::gpu {

// The file behind `soname` under the driver root; "" if there is none, or if the root is "" or "/": the loader then
// finds the library by its bare name.
std::string library_in_root(const std::string& driver_root, const std::string& soname);

bool library_loads(const std::string& driver_root, const std::string& soname);  // opens and closes it

// Sets dxcore and tegra_system. The files are looked up under the driver root, as NVIDIA's plugin does, and under
// `system_root`, as its other programs do.
PlatformSigns look_for_signs(const std::string& driver_root, const std::string& system_root);

}  // namespace tranche::gpu
