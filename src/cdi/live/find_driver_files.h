#pragma once
// Searches the driver root and the device nodes for the files that containers need (cdi::DriverFiles). Only reads
// directories, resolves links inside the root, changes nothing. Takes milliseconds, more on a slow disk: do not call it
// on the loop.
#include <string>
#include <vector>

#include "base/problem.h"
#include "base/result.h"
#include "cdi/driver_files.h"
#include "config/model.h"
#include "gpu/inventory/inventory.h"

namespace tranche::cdi {

struct DriverFilesSettings {
  std::string driver_root;        // for this process; if it does not exist, this process's own root is used
  std::string system_root = "/";  // prefix of /sys, and of /dev if the driver root has none
  config::Flags flags;            // nvidiaDriverRoot and nvidiaCTKPath
  std::vector<int> imex_channels;
};

struct FoundDriverFiles {
  DriverFiles files;
  bool nodes_in_driver_root = false;  // the driver root has a /dev, which was searched for nodes
  // On a Tegra system: of its CSV files, which are read below the driver root if their folder exists there, else below
  // the system root.
  std::vector<Problem> problems;
};

// kNotFound: there is no libcuda.so.<driver version>, so no container could use a GPU.
Result<FoundDriverFiles> find_driver_files(const DriverFilesSettings& settings, const gpu::Inventory& inventory);

}  // namespace tranche::cdi
