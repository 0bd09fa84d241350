#pragma once
// Inside plan/: the sentences that say what a share really is: roundings, hazards, what is not in force. GPUs that are
// alike share one sentence.
#include "config/model.h"
#include "inventory/inventory.h"
#include "plan/plan.h"

namespace tranche::plan {

void add_notes(const config::Config& config, const inventory::Inventory& inventory, Plan& plan);

}  // namespace tranche::plan
