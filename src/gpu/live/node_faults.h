#pragma once
// Faults that no GPU's own health tells: of the node as a whole, and of devices that only an older plan still has.
// Pure.
#include <map>
#include <string>

#include "gpu/health/cause.h"
#include "programs/node/snapshot.h"

namespace tranche::agent {

// `missing`: what containers of this node need and is not there, "" when all is.
std::map<std::string, health::Unhealthy> node_faults(const Snapshot& state, const std::string& missing);

}  // namespace tranche::agent
