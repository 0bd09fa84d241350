#pragma once
// Simulations and differences as JSON, docs/reference/plan.md. Pure.
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "simulate/differences.h"
#include "simulate/land.h"

namespace tranche::simulate {

nlohmann::ordered_json to_json(const Simulation& simulation);
nlohmann::ordered_json to_json(const std::vector<UnknownObject>& objects);
nlohmann::ordered_json to_json(const std::vector<Difference>& differences);

}  // namespace tranche::simulate
