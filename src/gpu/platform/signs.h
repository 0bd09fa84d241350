#pragma once
// What kind of system this is, by its files and libraries; inventory::platform_of decides from it. And where the
// driver's libraries are: under the driver root in the folders that NVIDIA's programs know, links followed inside that
// root, else wherever the loader finds them. Blocking file access and dlopen; no thread affinity.
#include <string>

#include "gpu/inventory/platform.h"

namespace tranche::host {

// The file behind `soname` under the driver root; "" when there is none, or when the root is "" or "/": then the loader
// is asked by the bare name.
std::string library_in_root(const std::string& driver_root, const std::string& soname);

bool library_loads(const std::string& driver_root, const std::string& soname);  // opens it and lets it go again

// dxcore and tegra_system. The files are looked up under the driver root, which is where NVIDIA's plugin looks, and
// under `system_root`, where its other programs do.
inventory::PlatformSigns look_for_signs(const std::string& driver_root, const std::string& system_root);

}  // namespace tranche::host
