#pragma once
// Plan → JSON, for `tranche plan --json`, the status socket and golden tests. docs/reference/plan.md defines the
// fields. nlohmann's conversions: `ordered_json(plan)`, and a list of them likewise.
#include <nlohmann/json_fwd.hpp>

#include "plan/plan.h"

namespace tranche::plan {

void to_json(nlohmann::ordered_json& json, const ShareLimits& share);
void to_json(nlohmann::ordered_json& json, const Plan& plan);

}  // namespace tranche::plan
