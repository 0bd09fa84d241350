#pragma once
// Which GPUs a process sees, in its own order: the device filter of the container runtime, then CUDA_VISIBLE_DEVICES.
// Pure.
#include <optional>
#include <string>
#include <vector>

#include "standins/node/sim_node.h"

namespace tranche::sim {

// A GPU as one process counts it.
struct VisibleGpu {
  int node_index = 0;  // Node's number
  GpuFacts facts;
};

std::vector<VisibleGpu> all_gpus(const Node& node);

// NVIDIA_VISIBLE_DEVICES stands for the device nodes that a container runtime injects: unset or "all" keeps every GPU,
// a list of UUIDs or indices those named, anything else ("void", "none", "") none. The order stays the node's.
std::vector<VisibleGpu> injected(std::vector<VisibleGpu> gpus, const std::optional<std::string>& variable);

// CUDA_VISIBLE_DEVICES: ordinals, UUIDs or unique UUID prefixes, in the order given; the first entry that names nothing
// ends the list, as CUDA documents it.
std::vector<VisibleGpu> selected(const std::vector<VisibleGpu>& gpus, const std::optional<std::string>& variable);

std::optional<std::string> environment(const char* name);

}  // namespace tranche::sim
