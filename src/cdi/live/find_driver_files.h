#pragma once
// Searches the driver root and the device nodes for the files that containers need (cdi::DriverFiles). Only reads
// directories, resolves links inside the root, changes nothing. Takes milliseconds, more on a slow disk: do not call it
// on the loop.
#include <string>

#include "base/result.h"
#include "cdi/make_specs.h"
#include "config/model.h"
#include "gpu/inventory/inventory.h"

namespace tranche::cdi {

// `driver_root`: where this process finds it; if it does not exist, this process's own root is searched. `system_root`:
// prefix of /sys, of /dev if the driver root has none, and of a Tegra system's CSV files if the driver root does not
// have their folder. Of the configuration: nvidiaDriverRoot and nvidiaCTKPath. kNotFound: there is
// no libcuda.so.<driver version>, so no container could use a GPU.
Result<DriverFiles> find_driver_files(const config::Config& config, const std::string& driver_root,
                                      const std::string& system_root, const gpu::Inventory& inventory);

}  // namespace tranche::cdi
