#pragma once
// What changed between two scans of a node, one sentence each, for logs and events; nothing = equal. Whether a change
// matters is the plan's affair. Pure.
#include <string>
#include <vector>

#include "inventory/inventory.h"

namespace tranche::inventory {

// A scan completed with the GPUs of an earlier one that it did not find. A GPU that fell silent keeps its place in
// every plan, unhealthy: ids must not vanish under running pods, and its tenants are not ours to end.
struct Kept {
  Inventory inventory;
  std::vector<std::string> missing;  // UUIDs that only the earlier scan had
};
Kept keep_missing(const Inventory& before, const Inventory& scanned);

std::vector<std::string> changes(const Inventory& before, const Inventory& after);

}  // namespace tranche::inventory
