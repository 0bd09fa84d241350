#pragma once
// Faults that the health of a GPU does not show: of the node as a whole, and of devices that only an older plan has.
// Pure.
#include <map>
#include <string>

#include "gpu/health/cause.h"
#include "programs/node/snapshot.h"

namespace tranche::agent {

std::map<std::string, health::Unhealthy> node_faults(const NodeView& node);

}  // namespace tranche::agent
