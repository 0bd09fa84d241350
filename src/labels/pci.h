#pragma once
// What the PCI functions of GPUs show without a driver. GPUs that are passed to virtual machines (bound to vfio-pci):
// no NVIDIA driver on the host can be queried, so their data comes from sysfs and the database of PCI ids. Virtual
// GPUs: the vendor-specific capability in the configuration space identifies them and the driver of the host. Pure; all
// are parsed here, and fuzzed.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"

namespace tranche::labels {

// The name of NVIDIA's device in a database of PCI ids (pci.ids); "" if it is not listed.
std::string device_name(std::string_view pci_ids, std::uint16_t device);

// The largest 64-bit memory region in a function's `resource` file: it maps the GPU's memory and has the same size, or
// the next power of two. 0 if there is none.
Bytes largest_region(std::string_view resource);

// "0x10de" → 0x10de; the class has six digits.
std::optional<std::uint32_t> hex_number(std::string_view text);

struct Vgpu {
  bool present = false;
  std::string host_driver_version;  // "" if not reported
  std::string host_driver_branch;
  friend bool operator==(const Vgpu&, const Vgpu&) = default;
};

// `config`: the bytes of one function, at least 256: the kernel returns fewer to a process without permission
// (kDenied). A virtual GPU that does not report its host's driver has empty texts.
Result<Vgpu> vgpu_of(std::string_view config);

}  // namespace tranche::labels
