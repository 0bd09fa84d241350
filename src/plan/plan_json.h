#pragma once
// Plan → JSON, for `tranche plan --json`, the status socket and golden tests. docs/reference/plan.md defines the
// fields.
#include <nlohmann/json_fwd.hpp>

#include "plan/plan.h"

namespace tranche::plan {

nlohmann::ordered_json to_json(const Plan& plan);

}  // namespace tranche::plan
