#pragma once
// Pods over several nodes that are equal and empty. A pod goes to the first node whose free slots are enough by number
// which the scheduler counts. The scheduler can choose a different node, so this is the fewest nodes, not a
// prediction. Pure.
#include <vector>

#include "simulate/land.h"

namespace tranche::simulate {

// One for each node. A pod that waits everywhere is in the last.
std::vector<Simulation> land_on_nodes(std::size_t nodes, const plan::Plan& plan, const inventory::Inventory& inventory,
                                      const config::Config& config, const std::vector<PodAsk>& pods);

// "all 11 pods land on the first node: the other is not needed"
std::string needed_text(const std::vector<Simulation>& nodes);

}  // namespace tranche::simulate
