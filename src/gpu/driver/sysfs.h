#pragma once
// What sysfs reports about a PCI function, for facts that the management library does not provide. `root` is prefixed
// to /sys. Absent or negative (virtual machines) is "unknown". No thread affinity.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tranche::gpu::nvml {

bool has_function(const std::string& root, std::string_view nvml_bus_id);

// kInvalid: the file does not contain a node number.
Result<std::optional<std::uint32_t>> numa_node_of(const std::string& root, std::string_view nvml_bus_id);
std::optional<std::uint32_t> pci_class_of(const std::string& root, std::string_view nvml_bus_id);  // 0x030200

// The PCIe root complex that the function is below: "pci0000:00", as the kernel names it. "": unknown.
std::string pcie_root_of(const std::string& root, std::string_view nvml_bus_id);

}  // namespace tranche::gpu::nvml
