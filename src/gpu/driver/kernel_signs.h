#pragma once
// What the kernel shows of the driver and its GPUs without the management library, which counts GPUs only when it is
// initialised: device nodes, the PCI functions bound to the driver, the version of its module. Reading it costs a
// handful of file operations and makes no call into the driver. One thread.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tranche::gpu::nvml {

// Unreadable entries are treated as absent.
struct KernelSigns {
  std::vector<std::string> devices;    // "nvidia0", sorted: <root>/dev
  std::vector<std::string> addresses;  // "0000:3b:00.0", sorted: <root>/sys/bus/pci/drivers/nvidia
  std::string version;                 // "580.159.04": <root>/sys/module/nvidia/version
  friend bool operator==(const KernelSigns&, const KernelSigns&) = default;
};
KernelSigns look_at_kernel(const std::string& root);

bool is_node_of_driver(std::string_view name);  // in /dev: of a GPU, or the control device

// What sysfs reports about a PCI function, for facts that the management library does not provide. `root` is prefixed
// to /sys. Absent or negative (virtual machines) is "unknown".
bool has_function(const std::string& root, std::string_view nvml_bus_id);

// kInvalid: the file does not contain a node number.
Result<std::optional<std::uint32_t>> numa_node_of(const std::string& root, std::string_view nvml_bus_id);
std::optional<std::uint32_t> pci_class_of(const std::string& root, std::string_view nvml_bus_id);  // 0x030200

// The PCIe root complex that the function is below: "pci0000:00", as the kernel names it. "": unknown.
std::string pcie_root_of(const std::string& root, std::string_view nvml_bus_id);

}  // namespace tranche::gpu::nvml
