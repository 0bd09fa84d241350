#pragma once
// A Tegra system's GPU as the CUDA driver tells it: there is no management library to ask. Opens that driver in this
// process for good. Blocking; any one thread.
#include "base/result.h"
#include "gpu/inventory/inventory.h"

namespace tranche::agent {

// For labels only: its GPUs have no UUID that a driver knows, and the driver's version is unknown.
Result<inventory::Inventory> read_tegra();

}  // namespace tranche::agent
