#pragma once
// When no plan fits the newest inventory, the last good one stays; some of its devices may be gone meanwhile. Pure.
#include <map>
#include <string>

#include "config/model.h"
#include "gpu/inventory/inventory.h"
#include "plan/plan.h"

namespace tranche::plan {

// UUIDs of planned devices that the inventory does not hold any more, or holds as something else, and why. Nothing for
// a plan that was made from this inventory.
std::map<std::string, std::string> stale_devices(const Plan& plan, const inventory::Inventory& inventory,
                                                 config::MigStrategy strategy);

}  // namespace tranche::plan
