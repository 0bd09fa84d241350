#include "cdi/live/find_driver_files.h"

#include <algorithm>

#include "cdi/live/device_nodes.h"
#include "cdi/live/finder.h"

namespace tranche::cdi {
namespace {

// The path of a host file relative to the host's driver root; "" if it is not below that.
std::string relative_to_driver_root(std::string root, const std::string& path) {
  while (!root.empty() && root.back() == '/') root.pop_back();
  return path.starts_with(root + "/") ? path.substr(root.size()) : "";
}

// A missing program proves something only if the host's driver root is visible through a mount.
DriverFiles::HookProgram look_for_hook_program(const os::RootView& driver, bool mounted, const config::Flags& flags) {
  const std::string path = relative_to_driver_root(flags.nvidia_driver_root, flags.plugin.nvidia_ctk_path);
  if (path.empty()) return DriverFiles::HookProgram::kUnknown;
  const auto place = driver.look(path);
  if (place && place->is_program()) return DriverFiles::HookProgram::kThere;
  return mounted ? DriverFiles::HookProgram::kNotThere : DriverFiles::HookProgram::kUnknown;
}

void find_extras(const os::RootView& driver, const os::RootView& devices, const os::RootView& system,
                 const std::vector<int>& imex_channels, DriverFiles& files) {
  for (const int channel : imex_channels) {
    const std::string path = imex_channel_path(channel);
    for (const os::RootView* root : {&devices, &system}) {
      const auto place = root->look(path);
      if (!place || !place->is_char_device()) continue;
      files.imex_channels[channel] = {path, place->path};
      break;
    }
  }
  files.gdrcopy = find_nodes(devices, {"/dev/gdrdrv"});
  files.gds = find_nodes(devices, {"/dev/nvidia-fs*"});
  files.mofed = find_nodes(devices, {"/dev/infiniband/rdma_cm", "/dev/infiniband/uverbs*"});
  files.gds_files = find_all(driver, {"/etc/cufile.json"}, [](const auto& place) { return place.is_file(); });
  for (const Found& udev : find_all(driver, {"/run/udev"}, [](const auto& place) { return place.is_directory(); }))
    files.gds_files.push_back(udev);
}

template <class Value>
void sort_once(std::vector<Value>& values) {
  std::ranges::sort(values);
  values.erase(std::ranges::unique(values).begin(), values.end());
}

void sort_all(DriverFiles& files) {
  for (auto* list : {&files.gpu_nodes, &files.control_nodes, &files.gdrcopy, &files.gds, &files.mofed, &files.libraries,
                     &files.explicit_libraries, &files.files, &files.binaries, &files.sockets, &files.mps_pipe,
                     &files.gds_files, &files.directories}) {
    sort_once(*list);
  }
  sort_once(files.library_links);
  sort_once(files.file_links);
}

}  // namespace

Result<FoundDriverFiles> find_driver_files(const DriverFilesSettings& settings, const inventory::Inventory& inventory) {
  auto driver = os::RootView::open(settings.driver_root);
  const bool mounted = driver.has_value() && driver->path() != "/";
  if (!driver) driver = os::RootView::open("/");
  if (!driver) return std::unexpected(within(driver.error(), "cannot look for the driver's files"));
  TRY(const auto system, os::RootView::open(settings.system_root));
  const auto dev = driver->look("/dev");

  FoundDriverFiles found;
  found.nodes_in_driver_root = dev && dev->is_directory();
  const os::RootView& devices = found.nodes_in_driver_root ? *driver : system;
  switch (inventory.platform) {
    case inventory::Platform::kNvml:
      TRY_STATUS(find_libraries(*driver, inventory.driver_version, found.files));
      find_graphics_firmware_and_programs(*driver, system, inventory.driver_version, found.files);
      find_sockets(*driver, found.files);
      find_gpu_nodes(devices, system, inventory, found.files);
      break;
    case inventory::Platform::kWsl:
      find_wsl(*driver, devices, found.files);
      break;
    case inventory::Platform::kTegra:
      find_tegra(*driver, system, devices, found);
      break;
  }
  find_extras(*driver, devices, system, settings.imex_channels, found.files);
  found.files.hook_program = look_for_hook_program(*driver, mounted, settings.flags);
  sort_all(found.files);
  return found;
}

}  // namespace tranche::cdi
