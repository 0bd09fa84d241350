#pragma once
// From the configuration to how the driver library is looked for, for both programs.
#include <string>

#include "config/model.h"
#include "gpu/driver/nvml.h"

namespace tranche::agent {

// `driver_root_here`: where the driver's files are for this process; "" = flags.plugin.containerDriverRoot.
// `system_root`: where the node's /dev and /sys are.
inline host::NvmlSettings driver_settings(const config::Flags& flags, const std::string& driver_root_here,
                                          const std::string& system_root = "/") {
  host::NvmlSettings settings;
  settings.system_root = system_root;
  settings.driver_root = driver_root_here.empty() ? flags.plugin.container_driver_root : driver_root_here;
  switch (flags.device_discovery_strategy) {
    case config::DiscoveryStrategy::kNvml:
      settings.discovery = inventory::Discovery::kNvml;
      break;
    case config::DiscoveryStrategy::kTegra:
      settings.discovery = inventory::Discovery::kTegra;
      break;
    case config::DiscoveryStrategy::kAuto:
    case config::DiscoveryStrategy::kVfio:  // of feature discovery only; refused before it gets here
      break;
  }
  return settings;
}

}  // namespace tranche::agent
