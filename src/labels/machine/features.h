#pragma once
// Facts for node labels that no driver tells: the machine's model, what PCI functions say of virtual GPUs, and GPUs
// that are handed to virtual machines. `root` stands before /sys and /usr/share. Blocking file access; no thread
// affinity.
#include <string>

#include "base/result.h"
#include "gpu/inventory/inventory.h"
#include "labels/vgpu.h"

namespace tranche::host {

// "unknown" when there is no path or nothing to read there.
std::string read_machine_type(const std::string& path);

// Of all functions of NVIDIA's; of several virtual GPUs the last by address. An error when one of them cannot be read,
// since then nobody knows.
Result<label::Vgpu> read_vgpu(const std::string& root);

// GPUs bound to vfio-pci, virtual functions left out, by address: their names from the node's database of PCI ids,
// their memory from the region that maps it, both rough; no driver version and no compute capability.
Result<inventory::Inventory> find_passed_through(const std::string& root);

}  // namespace tranche::host
