#pragma once
// Which devices a process sees, in its own order: the device filter of the container runtime, then
// CUDA_VISIBLE_DEVICES. A GPU with MIG on is replaced by its MIG devices (the real one shows a process only the first
// of them unless it selects one).
#include <optional>
#include <string>
#include <vector>

#include "standins/node/sim_node.h"

namespace tranche::sim {

// A GPU in the numbering of one process.
struct VisibleGpu {
  int node_index = 0;        // Node's number
  GpuProperties properties;  // of a MIG device: its own UUID, SMs and memory
  std::uint32_t gpu_instance = kWholeGpu;
  std::uint32_t compute_instance = kWholeGpu;
  bool is_mig() const { return gpu_instance != kWholeGpu; }
};

// Attaches a process to the device, in its MIG instance if it is one.
bool attach_to(Node& node, const VisibleGpu& gpu, pid_t pid, ProcessKind kind, std::uint32_t sms);
// Bytes in use on the device.
std::uint64_t used_on(const Node& node, const VisibleGpu& gpu);
// NVML's number; a MIG device does not have one and admits all processes.
int compute_mode_of(const Node& node, const VisibleGpu& gpu);

std::vector<VisibleGpu> all_gpus(const Node& node);

// NVIDIA_VISIBLE_DEVICES simulates the device nodes that a container runtime injects: unset or "all" keeps every GPU, a
// list of UUIDs or indices keeps those, anything else ("void", "none", "") keeps none. The node's order is kept.
std::vector<VisibleGpu> injected(std::vector<VisibleGpu> gpus, const std::optional<std::string>& variable);

// CUDA_VISIBLE_DEVICES: ordinals, UUIDs or unique UUID prefixes, in the given order; the first entry without a match
// ends the list, as CUDA documents it.
std::vector<VisibleGpu> selected(const std::vector<VisibleGpu>& gpus, const std::optional<std::string>& variable);

std::optional<std::string> environment(const char* name);

}  // namespace tranche::sim
