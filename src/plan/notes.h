#pragma once
// Inside plan/: sentences on the effective shares: roundings, hazards, settings without effect. Equal GPUs have one
// sentence in common.
#include "config/model.h"
#include "gpu/inventory/inventory.h"
#include "plan/entries.h"
#include "plan/plan.h"

namespace tranche::plan {

// Notes that slotMemory yields fewer, clearly larger slots, because one more slot would be slightly smaller than
// requested.
void note_larger_slots(const Taken& taken, std::vector<std::string>& notes);

void add_notes(const config::Config& config, const inventory::Inventory& inventory, Plan& plan);

}  // namespace tranche::plan
