#pragma once
// The device nodes that open MIG instances, by the driver's table under /proc. One thread.
#include <string>

#include "gpu/inventory/inventory.h"

namespace tranche::host::nvml {

// Fills gi_cap and ci_cap of all MIG devices; `root` stands before /proc. What is not in the table stays absent, and
// the node's doubts say so.
void find_mig_nodes(const std::string& root, inventory::Inventory& node);

}  // namespace tranche::host::nvml
