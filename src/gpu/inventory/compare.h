#pragma once
// What changed between two scans of a node, one sentence each, for logs and events; nothing = equal. Whether a change
// matters is the plan's affair. Pure.
#include <functional>
#include <string>
#include <vector>

#include "gpu/inventory/inventory.h"

namespace tranche::inventory {

// A scan completed with the GPUs of an earlier one that it did not find, except those that are pulled for certain. A
// GPU that fell silent keeps its place in every plan, unhealthy: it may come back, and its tenants are not ours to end.
struct Kept {
  Inventory inventory;
  std::vector<std::string> missing;  // UUIDs that only the earlier scan had
};
Kept keep_missing(const Inventory& before, const Inventory& scanned,
                  const std::function<bool(const Gpu& gpu)>& is_pulled);

std::vector<std::string> changes(const Inventory& before, const Inventory& after);

}  // namespace tranche::inventory
