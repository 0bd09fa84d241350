#pragma once
// What it costs a client to come in through its endpoint: among clients with equal limits, and where the daemon has to
// be given different limits each time (docs/internals/mps-contract.md, "A grant's own limits").
#include <nlohmann/json_fwd.hpp>

#include "programs.h"

namespace tranche::bench {

// From the connection to the endpoint to the socket of the server. `same`: the limits of the one before; `other`: two
// grants of different limits in turn.
nlohmann::ordered_json admission_cost(const Programs& programs, int calls);

}  // namespace tranche::bench
