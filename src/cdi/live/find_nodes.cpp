#include <algorithm>

#include "cdi/live/finder.h"

namespace tranche::cdi {
namespace {

constexpr const char* kDri = "/dev/dri/";

// sysfs lists the DRM nodes of a PCI function; udev creates links to the nodes by function.
DrmNodes find_drm(const os::RootView& devices, const os::RootView& system, const std::string& address) {
  DrmNodes drm;
  for (const std::string& name : system.list("/sys/bus/pci/devices/" + address + "/drm")) {
    if (!name.starts_with("card") && !name.starts_with("renderD")) continue;
    const auto place = devices.look(kDri + name);
    if (place && place->is_char_device()) drm.nodes.push_back({kDri + name, place->path});
  }
  for (const std::string suffix : {"-card", "-render"}) {
    const std::string path = std::string(kDri) + "by-path/pci-" + address + suffix;
    const auto text = devices.link_text(path);
    const auto place = text ? devices.look(path) : std::nullopt;
    if (!place || std::ranges::find(drm.nodes, place->path, &Found::real) == drm.nodes.end()) continue;
    drm.by_path_links.push_back({path, text->front() == '/' ? place->path : *text, place->path});
  }
  return drm;
}

}  // namespace

void find_gpu_nodes(const os::RootView& devices, const os::RootView& system, const inventory::Inventory& inventory,
                    DriverFiles& files) {
  std::vector<std::string> wanted;
  for (const auto& gpu : inventory.gpus) {
    wanted.push_back("/dev/nvidia" + std::to_string(gpu.minor));
    for (const auto& mig : gpu.mig_devices)
      for (const auto& cap : {mig.gi_cap, mig.ci_cap})
        if (cap) wanted.push_back("/dev/nvidia-caps/nvidia-cap" + std::to_string(*cap));
    const std::string address = inventory::sysfs_address(gpu.pci_bus_id);
    if (address.empty()) continue;
    if (auto drm = find_drm(devices, system, address); !drm.nodes.empty()) files.drm[gpu.uuid] = std::move(drm);
  }
  files.gpu_nodes = find_nodes(devices, wanted);
  files.control_nodes =
      find_nodes(devices, {"/dev/nvidia-modeset", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidiactl"});
}

}  // namespace tranche::cdi
