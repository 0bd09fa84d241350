#pragma once
// From the configuration to the settings for finding the driver library, for both programs.
#include <string>

#include "config/model.h"
#include "gpu/driver/nvml.h"

namespace tranche::config {

// `driver_root_here`: where this process finds the driver's files; "" = flags.plugin.containerDriverRoot.
// `system_root`: where the node's /dev and /sys are.
inline gpu::NvmlSettings driver_settings(const Flags& flags, const std::string& driver_root_here,
                                         const std::string& system_root = "/") {
  gpu::NvmlSettings settings;
  settings.system_root = system_root;
  settings.driver_root = driver_root_here.empty() ? flags.plugin.container_driver_root : driver_root_here;
  settings.discovery = flags.device_discovery_strategy;
  return settings;
}

}  // namespace tranche::config
