#pragma once
// `sim-node gpu N …`: what can happen to one GPU.
#include "sim_node.h"
#include "tool_words.h"

namespace tranche::sim {

int need_gpu(Words& words, const Node& node);  // an index or UUID as the next word; a fault when there is no such GPU
void gpu_command(Words& words, Node& node);

}  // namespace tranche::sim
