#pragma once
// Landings and differences as text for a terminal, and as JSON (docs/reference/plan.md). Pure.
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "plan/table.h"
#include "simulate/differences.h"
#include "simulate/land.h"

namespace tranche::simulate {

// Which pods land where, what keeps the others away, what is left on every device and what is stranded.
std::string render_table(const Simulation& simulation, const plan::TableOptions& options);

// `before` and `after` name the configurations.
std::string render_table(const std::vector<Difference>& differences, const std::string& before,
                         const std::string& after, const plan::TableOptions& options);

void to_json(nlohmann::ordered_json& json, const Simulation& simulation);
void to_json(nlohmann::ordered_json& json, const UnknownObject& object);
void to_json(nlohmann::ordered_json& json, const Difference& difference);

}  // namespace tranche::simulate
