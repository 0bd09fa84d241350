#pragma once
// If no plan is possible for the newest inventory, the previous plan stays; some of its devices may be gone. Pure.
#include <map>
#include <string>

#include "config/model.h"
#include "gpu/inventory/inventory.h"
#include "plan/plan.h"

namespace tranche::plan {

// UUIDs of planned devices that are no longer in the inventory, or have changed their kind, with the reason. Empty for
// a plan that was made from this inventory.
std::map<std::string, std::string> stale_devices(const Plan& plan, const inventory::Inventory& inventory,
                                                 config::MigStrategy strategy);

}  // namespace tranche::plan
