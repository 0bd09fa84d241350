#pragma once
// Config + Inventory + Plan → the node labels that GPU feature discovery would set, by its rules, as one sorted map.
// Where its answer depends on hash order (several GPU models) ours is fixed: the model of most GPUs, of equals the one
// with the lowest index. Values are always legal label values. Writing them anywhere is not done here. Pure.
// docs/labels.md lists every label.
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"
#include "config/model.h"
#include "inventory/inventory.h"
#include "plan/plan.h"

namespace tranche::label {

using Labels = std::map<std::string, std::string>;

// What the PCI configuration space says about virtual GPUs; absent when it could not be read.
struct Vgpu {
  bool present = false;
  std::string host_driver_version;  // "" when not present
  std::string host_driver_branch;
  friend bool operator==(const Vgpu&, const Vgpu&) = default;
};

struct Facts {
  std::string machine_type = "unknown";  // content of the machine-type file
  std::optional<WallTime> loaded_at{};   // for nvidia.com/gfd.timestamp; absent = no timestamp label
  std::optional<Vgpu> vgpu{};
};

Labels labels_for(const config::Config& config, const inventory::Inventory& inventory, const plan::Plan& plan,
                  const Facts& facts);

// A model name as a label value: anything outside letters, digits, "-", "_", "." and blanks deleted, blanks to one "-".
std::string label_value(std::string_view text);

}  // namespace tranche::label
