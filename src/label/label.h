#pragma once
// Config + Inventory + Plan → the node labels that GPU feature discovery would set, by its rules, as one sorted map.
// Writing them anywhere is not done here. Pure.
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"
#include "config/model.h"
#include "inventory/inventory.h"
#include "plan/plan.h"

namespace tranche::label {

struct Facts {
  std::string machine_type = "unknown";      // content of the machine-type file
  std::optional<WallTime> loaded_at;         // for nvidia.com/gfd.timestamp; absent = no timestamp label
};

std::map<std::string, std::string> labels_for(const config::Config& config, const inventory::Inventory& inventory,
                                              const plan::Plan& plan, const Facts& facts);

// A model name as a label value: anything outside letters, digits, "-", "_", "." and blanks deleted, blanks to one "-".
std::string label_value(std::string_view text);

}  // namespace tranche::label
