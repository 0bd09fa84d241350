#pragma once
// Inside plan/: one pool per device that MPS serves (a GPU, or a MIG device), or per entry whose containers may hold
// slots of several GPUs; with names that stay the same over restarts and reboots.
#include <string>
#include <string_view>
#include <vector>

#include "config/model.h"
#include "gpu/inventory/inventory.h"
#include "plan/plan.h"

namespace tranche::plan {

// "gpu-" (or "mig-") and the first eight hexadecimal digits of each UUID, or as many more as tell the UUIDs apart; in
// the order of the input.
std::vector<std::string> pool_ids(const std::vector<std::string>& uuids);

// "set-" and eight hexadecimal digits of what the UUIDs hash to, in whatever order they come: another set of GPUs is
// another pool.
std::string set_id(std::vector<std::string> uuids);

// A resource on its way into the plan, and the entry that it is of; nullptr = shared by none.
struct Draft {
  PlannedResource resource;
  const config::SharedResource* entry = nullptr;
};
using Drafts = std::vector<Draft>;

// Pools for the devices that MPS serves, by id; enters each pool's id into its devices. The GPUs of an entry with
// SplitPolicy::kSpan are one pool, and so are those of entries that give names by the same pattern.
std::vector<PlannedPool> make_pools(const config::Config& config, const inventory::Inventory& inventory,
                                    Drafts& drafts);

}  // namespace tranche::plan
