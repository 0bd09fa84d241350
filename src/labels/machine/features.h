#pragma once
// Facts for node labels that the driver does not report: the machine's model, virtual GPU data in PCI functions, and
// GPUs that are passed to virtual machines. `root` is prefixed to /sys and /usr/share. Blocking file access; no thread
// affinity.
#include <string>

#include "base/result.h"
#include "gpu/inventory/inventory.h"
#include "labels/pci.h"

namespace tranche::labels {

// "unknown" if there is no path or nothing to read.
std::string read_machine_type(const std::string& path);

// From all of NVIDIA's functions; of several virtual GPUs the last by address. An error if one of them cannot be read,
// because the result would then be uncertain.
Result<Vgpu> read_vgpu(const std::string& root);

// GPUs bound to vfio-pci, without virtual functions, by address: their names from the node's database of PCI ids, their
// memory from the region that maps it, both approximate; no driver version and no compute capability.
Result<gpu::Inventory> find_passed_through(const std::string& root);

}  // namespace tranche::labels
