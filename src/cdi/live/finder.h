#pragma once
// Private to cdi/live: the steps of find_driver_files, which sorts what they find and removes what is there twice.
#include <string>
#include <vector>

#include "cdi/driver_files.h"
#include "cdi/live/find_driver_files.h"
#include "os/files/root_view.h"

namespace tranche::cdi {

// All paths in a root that match `patterns` and pass `is`, with their real paths.
template <class Test>
std::vector<Found> find_all(const os::RootView& root, const std::vector<std::string>& patterns, Test is) {
  std::vector<Found> found;
  for (const std::string& pattern : patterns) {
    for (const std::string& path : root.matching(pattern)) {
      const auto place = root.look(path);
      if (place && is(*place)) found.push_back({path, place->path});
    }
  }
  return found;
}
std::vector<Found> find_files(const os::RootView& root, const std::vector<std::string>& patterns);
std::vector<Found> find_nodes(const os::RootView& root, const std::vector<std::string>& patterns);

// Finds the driver's library folder, its files of this driver version, and the links to them.
Status find_libraries(const os::RootView& root, const std::string& driver_version, DriverFiles& files);
// `system`: prefix of /sys.
void find_graphics_firmware_and_programs(const os::RootView& root, const os::RootView& system,
                                         const std::string& driver_version, DriverFiles& files);
void find_sockets(const os::RootView& root, DriverFiles& files);
void find_gpu_nodes(const os::RootView& devices, const os::RootView& system, const inventory::Inventory& inventory,
                    DriverFiles& files);
void find_wsl(const os::RootView& driver, const os::RootView& devices, DriverFiles& files);
void find_tegra(const os::RootView& driver, const os::RootView& system, const os::RootView& devices,
                FoundDriverFiles& found);

}  // namespace tranche::cdi
