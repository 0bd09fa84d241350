#pragma once
// Inside plan/: one pool per device that MPS serves (a GPU, or a MIG device), or per entry whose containers may hold
// slots of several GPUs; pool names are stable over restarts and reboots.
#include <string>
#include <vector>

#include "config/model.h"
#include "gpu/inventory/inventory.h"
#include "plan/plan.h"

namespace tranche::plan {

// "gpu-" (or "mig-") and the first eight hexadecimal digits of each UUID, or as many more as are needed to make them
// unique; in the order of the input.
std::vector<std::string> pool_ids(const std::vector<std::string>& uuids);

// "set-" and eight hexadecimal digits of a hash of the UUIDs, in any order: a different set of GPUs is a different
// pool.
std::string set_id(std::vector<std::string> uuids);

// A resource under construction, and its entry; nullptr = not shared, or for claims.
struct Draft {
  PlannedResource resource;
  const config::SharedResource* entry = nullptr;
};
using Drafts = std::vector<Draft>;

// Pools for the devices that MPS serves, by id; sets the pool id of its devices. The GPUs of an entry with
// SplitPolicy::kSpan are one pool, and so are those of entries with the same name pattern, and those for claims.
std::vector<PlannedPool> make_pools(const config::Config& config, const inventory::Inventory& inventory,
                                    Drafts& drafts);

}  // namespace tranche::plan
