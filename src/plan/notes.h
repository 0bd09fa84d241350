#pragma once
// Inside plan/: the sentences that say what a share really is: roundings, hazards, what is not in force. GPUs that are
// alike share one sentence.
#include "config/model.h"
#include "gpu/inventory/inventory.h"
#include "plan/entries.h"
#include "plan/plan.h"

namespace tranche::plan {

// Where slotMemory comes to fewer slots that are clearly larger, as one more would be a little smaller than asked for.
void note_larger_slots(const Taken& taken, std::vector<std::string>& notes);

void add_notes(const config::Config& config, const inventory::Inventory& inventory, Plan& plan);

}  // namespace tranche::plan
