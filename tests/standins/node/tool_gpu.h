#pragma once
// `sim-node gpu N …`: changes to one GPU.
#include "sim_node.h"
#include "tool_arguments.h"

namespace tranche::sim {

// The effects of a reset on a real GPU: pending modes take effect, instances are gone, volatile counters restart.
void reset_gpu(Node& node, int gpu);
// The effects of a reboot on MIG: Ampere keeps its mode in the InfoROM, Hopper and newer forget it; instances are gone
// on all (facts of NVML, 5.1).
void reboot(Node& node);

// An index or UUID as the next word; an error if there is no such GPU.
int need_gpu(ToolArguments& words, const Node& node);
void gpu_command(ToolArguments& words, Node& node);

}  // namespace tranche::sim
