#pragma once
// Looks through the driver root and the device nodes for what containers need (cdi::DriverFiles). Reads directories
// only, follows links inside the root only, changes nothing. Takes milliseconds, on a slow disk more: not for the loop.
#include <string>
#include <vector>

#include "base/problem.h"
#include "base/result.h"
#include "cdi/driver_files.h"
#include "config/model.h"
#include "gpu/inventory/inventory.h"

namespace tranche::host {

struct DriverFilesSettings {
  std::string driver_root;        // for this process; where it is not there, this process's own root stands for it
  std::string system_root = "/";  // what /sys is looked up under, and /dev where the driver root has none
  config::Flags flags;            // nvidiaDriverRoot and nvidiaCTKPath
  std::vector<int> imex_channels;
};

struct FoundDriverFiles {
  cdi::DriverFiles files;
  bool nodes_in_driver_root = false;  // the driver root has a /dev, so nodes were looked for there
  // Of a Tegra system: its CSV files as paths for this process, below the driver root if their folder is there, else
  // below the system root, else none; and what is wrong with them.
  std::vector<std::string> csv_files;
  std::vector<Problem> problems;
};

// kNotFound: libcuda.so.<driver version> is nowhere, so that no container could use a GPU.
Result<FoundDriverFiles> find_driver_files(const DriverFilesSettings& settings, const inventory::Inventory& inventory);

}  // namespace tranche::host
