#pragma once
// How close the GPUs of the node are to each other: the PCIe level of their common ancestor, and the active NVLinks
// that connect two of them directly. One thread.
#include <vector>

#include "gpu/driver/library.h"
#include "gpu/driver/scan.h"
#include "gpu/inventory/inventory.h"

namespace tranche::host::nvml {

// Every pair once, a < b; indices into `gpus`, which is in the order of `held`.
std::vector<inventory::GpuLink> read_links(const Library& library, const std::vector<Held>& held,
                                           const std::vector<inventory::Gpu>& gpus);

}  // namespace tranche::host::nvml
