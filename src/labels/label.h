#pragma once
// Config + Inventory + Plan → the node labels that GPU feature discovery would set, by its rules, and some of our own
// (tranche.io/…), as one sorted map. Where its answer depends on hash order (several GPU models) ours is fixed: the
// model of most GPUs, of equals the one with the lowest index; speaking_of() says which. Keys and values are always
// legal for the API server. Writing them anywhere is not done here. Pure. docs/reference/labels.md lists every label.
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "config/model.h"
#include "gpu/inventory/inventory.h"
#include "labels/vgpu.h"
#include "plan/plan.h"

namespace tranche::label {

using Labels = std::map<std::string, std::string>;

// What the labels of a system say whose driver has no management library to ask (Tegra, GPUs passed through).
inline constexpr const char* kUnknownDriver = "unknown.unknown.unknown";

struct Facts {
  std::string machine_type = "unknown";  // content of the machine-type file
  std::optional<WallTime> loaded_at{};   // for nvidia.com/gfd.timestamp; absent = no timestamp label
  std::optional<Vgpu> vgpu{};
  std::map<std::string, std::string> tiers{};  // of MPS pools, as `tranche mps` reports them: pool id, "v2"
  friend bool operator==(const Facts&, const Facts&) = default;
};

Labels labels_for(const config::Config& config, const inventory::Inventory& inventory, const plan::Plan& plan,
                  const Facts& facts);

// Which model nvidia.com/gpu.… is about where there are several, and of which models it says nothing.
struct ModelCount {
  std::string model;
  std::size_t count = 0;
  friend bool operator==(const ModelCount&, const ModelCount&) = default;
};
struct Speaking {
  ModelCount speaker;
  std::vector<ModelCount> silent;  // by the lowest index
  friend bool operator==(const Speaking&, const Speaking&) = default;
};
std::optional<Speaking> speaking_of(const inventory::Inventory& inventory);  // nothing: no GPUs

// What the labels do not show by themselves, a sentence each.
std::vector<std::string> notes_for(const inventory::Inventory& inventory);

// A model name as a label value: anything outside letters, digits, "-", "_", "." and blanks deleted, blanks to one "-".
std::string label_value(std::string_view text);

bool legal_key(std::string_view key);      // "prefix/name", the name of at most 63 characters
bool legal_value(std::string_view value);  // "" is

}  // namespace tranche::label
