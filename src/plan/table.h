#pragma once
// A Plan as text for a terminal: GPUs, resources with the limits of a slot, pools, planned labels, omitted devices and
// why, notes. For people only; programs read its JSON (plan.h). Pure.
#include <map>
#include <string>
#include <vector>

#include "gpu/inventory/inventory.h"
#include "plan/plan.h"

namespace tranche::plan {

struct TableOptions {
  bool colour = false;  // ANSI escapes
  int width = 110;      // at which sentences are wrapped
};

// `labels` are those that label/ would set; if empty, the section is omitted.
std::string render_table(const Plan& plan, const gpu::Inventory& inventory,
                         const std::map<std::string, std::string>& labels, const TableOptions& options);

std::string mib_text(Bytes bytes);                   // "71885 MiB", "not limited"
std::string threads_text(const ShareLimits& share);  // "66 (50 %)", "50 %", "not limited"
// Device indices, of which runs of plain numbers are one text: "0-3", "5", "0:1".
std::vector<std::string> folded(const std::vector<std::string>& indices);

}  // namespace tranche::plan
