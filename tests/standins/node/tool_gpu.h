#pragma once
// `sim-node gpu N …`: what can happen to one GPU.
#include "sim_node.h"
#include "tool_words.h"

namespace tranche::sim {

// What a reset does to a real GPU: pending modes hold, instances are gone, volatile counters start again.
void reset_gpu(Node& node, int gpu);
// What a reboot does to MIG: Ampere keeps its mode in the InfoROM, Hopper and newer forget it; instances are gone
// everywhere (facts of NVML, 5.1).
void reboot(Node& node);

int need_gpu(Words& words, const Node& node);  // an index or UUID as the next word; a fault when there is no such GPU
void gpu_command(Words& words, Node& node);

}  // namespace tranche::sim
