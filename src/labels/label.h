#pragma once
// Config + Inventory + Plan → the node labels that GPU feature discovery would set, by its rules, and Tranche's own
// (tranche.io/…), as one sorted map. Where NVIDIA's result depends on hash order (several GPU models), this one is
// fixed: the model of most GPUs, among equals the one with the lowest index; notes_for() names it. Keys and values are
// always valid for the API server. Does not write labels. Pure. docs/reference/labels.md lists all labels.
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "config/model.h"
#include "gpu/inventory/inventory.h"
#include "labels/pci.h"
#include "plan/plan.h"

namespace tranche::labels {

using Labels = std::map<std::string, std::string>;

// The label values of a system whose driver has no management library (Tegra, GPUs passed through).
inline constexpr const char* kUnknownDriver = "unknown.unknown.unknown";

struct Inputs {
  std::string machine_type = "unknown";  // content of the machine-type file
  std::optional<WallTime> loaded_at{};   // for nvidia.com/gfd.timestamp; absent = no timestamp label
  std::optional<Vgpu> vgpu{};
  friend bool operator==(const Inputs&, const Inputs&) = default;
};

Labels labels_for(const config::Config& config, const gpu::Inventory& inventory, const plan::Plan& plan,
                  const Inputs& inputs);

// Facts that the labels do not show, a sentence each.
std::vector<std::string> notes_for(const gpu::Inventory& inventory);

// A model name as a label value: anything outside letters, digits, "-", "_", "." and blanks deleted, blanks to one "-".
std::string label_value(std::string_view text);

bool legal_key(std::string_view key);      // "prefix/name", the name of at most 63 characters
bool legal_value(std::string_view value);  // "" is valid

}  // namespace tranche::labels
