#pragma once
// What the kernel says about a PCI function, for the facts that the management library does not give. `root` stands
// before /sys. Absent or negative (virtual machines) is "unknown". No thread affinity.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tranche::host::nvml {

// "00000000:3B:00.0", as NVML writes it → "0000:3b:00.0", the name of the folder. "" when it is not an address.
std::string sysfs_address(std::string_view nvml_bus_id);

bool has_function(const std::string& root, std::string_view nvml_bus_id);

// kInvalid: what stands there is no number of a node.
Result<std::optional<std::uint32_t>> numa_node_of(const std::string& root, std::string_view nvml_bus_id);
std::optional<std::uint32_t> pci_class_of(const std::string& root, std::string_view nvml_bus_id);  // 0x030200

}  // namespace tranche::host::nvml
