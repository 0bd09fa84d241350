#pragma once
// What claims (Dynamic Resource Allocation) cost: kubelet's call until a claim is prepared, with its endpoint made and
// its CDI specification written, and until it is unprepared; and the time from a fault that the agent has noticed until
// the changed ResourceSlice is stored. The API server is the stand-in in this process.
#include <nlohmann/json.hpp>

#include "programs.h"

namespace tranche::bench {

nlohmann::ordered_json claims_cost(const Programs& programs, int calls);

}  // namespace tranche::bench
