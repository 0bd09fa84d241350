#pragma once
// Inventory ⇄ JSON: what `tranche plan --inventory-only` writes and `tranche plan --inventory F` reads. A recording of
// a real node serves as input of simulations and tests. Reading is strict and names the invalid field. Pure; fuzzed.
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "base/result.h"
#include "gpu/inventory/inventory.h"

namespace tranche::gpu {

nlohmann::ordered_json to_json(const Inventory& inventory);
Result<Inventory> parse_inventory(std::string_view json_text, std::string_view source);

}  // namespace tranche::gpu
