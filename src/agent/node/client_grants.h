#pragma once
// Which grant the MPS clients on the GPUs belong to, by the door in their mount table. For people to see: nothing acts
// on it. Reads /proc; cheap for clients that were seen before.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "host/nvml/nvml.h"

namespace tranche::agent {

// A process id that is in `known` too is taken to be the same process still. Clients without a door are left out.
std::map<std::uint32_t, std::string> grants_of_clients(const std::vector<host::GpuUse>& use,
                                                       const std::map<std::uint32_t, std::string>& known);

}  // namespace tranche::agent
