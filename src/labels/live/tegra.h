#pragma once
// A Tegra system's GPU as the CUDA driver reports it, because there is no management library. Opens that driver in this
// process permanently. Blocking; any one thread.
#include "base/result.h"
#include "gpu/inventory/inventory.h"

namespace tranche::agent {

// For labels only: its GPUs have no UUID that the driver knows, and the driver's version is unknown.
Result<inventory::Inventory> read_tegra();

}  // namespace tranche::agent
