#pragma once
// /proc/driver/nvidia/capabilities as the kernel module provides it: one file for each GPU instance and compute
// instance (facts of NVML, 7.1 and 7.4). Written below the node's procRoot, if there is one. Any thread.
#include "sim_node.h"

namespace tranche::sim {

// Makes the files of this GPU match its instances.
void show_capabilities(const Node& node, int gpu);

}  // namespace tranche::sim
