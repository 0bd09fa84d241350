#pragma once
// What changed between two scans of a node, one sentence each, for logs and events; empty = equal. Whether a change
// matters is decided by the plan. Pure.
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "gpu/inventory/inventory.h"

namespace tranche::gpu {

// A scan completed with the GPUs that only an earlier scan found, except those that were certainly removed. A GPU that
// stopped answering stays in every plan, as unhealthy: it may come back, and Tranche does not end its tenants.
struct Kept {
  Inventory inventory;
  std::vector<std::string> missing;  // UUIDs that only the earlier scan had
};
Kept keep_missing(const Inventory& before, const Inventory& scanned,
                  const std::function<bool(const Gpu& gpu)>& is_pulled);

// The links between these GPUs, by their places here; the last source that has one counts.
std::vector<GpuLink> links_among(const std::vector<Gpu>& gpus, std::initializer_list<const Inventory*> sources);

std::vector<std::string> changes(const Inventory& before, const Inventory& after);

}  // namespace tranche::gpu
