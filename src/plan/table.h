#pragma once
// A Plan as text for a terminal: GPUs, resources with what a slot is worth, pools, labels to come, what was left out
// and why, notes. For people only; programs read json.h. Pure.
#include <map>
#include <string>

#include "gpu/inventory/inventory.h"
#include "plan/plan.h"

namespace tranche::plan {

struct TableOptions {
  bool colour = false;  // ANSI escapes
  int width = 110;      // where sentences are wrapped
};

// `labels` are those that label/ would set; an empty map leaves the section out.
std::string render_table(const Plan& plan, const inventory::Inventory& inventory,
                         const std::map<std::string, std::string>& labels, const TableOptions& options);

}  // namespace tranche::plan
