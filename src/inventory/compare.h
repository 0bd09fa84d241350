#pragma once
// What changed between two scans of a node, one sentence each, for logs and events; nothing = equal. Whether a change
// matters is the plan's affair. Pure.
#include <string>
#include <vector>

#include "inventory/inventory.h"

namespace tranche::inventory {

std::vector<std::string> changes(const Inventory& before, const Inventory& after);

}  // namespace tranche::inventory
