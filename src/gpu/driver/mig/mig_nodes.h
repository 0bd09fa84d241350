#pragma once
// The device nodes that give access to MIG instances, from the driver's table under /proc. One thread.
#include <string>

#include "gpu/inventory/inventory.h"

namespace tranche::host::nvml {

// Fills gi_cap and ci_cap of all MIG devices; `root` is prefixed to /proc. Entries that the table does not have stay
// absent, and the node's doubts list them.
void find_mig_nodes(const std::string& root, inventory::Inventory& node);

}  // namespace tranche::host::nvml
