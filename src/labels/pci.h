#pragma once
// GPUs that are passed to virtual machines (bound to vfio-pci): no NVIDIA driver on the host can be queried, so their
// data comes from sysfs and the database of PCI ids. Pure; both are parsed here, and fuzzed.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/units.h"

namespace tranche::label {

// The name of NVIDIA's device in a database of PCI ids (pci.ids); "" if it is not listed.
std::string device_name(std::string_view pci_ids, std::uint16_t device);

// The largest 64-bit memory region in a function's `resource` file: it maps the GPU's memory and has the same size, or
// the next power of two. 0 if there is none.
Bytes largest_region(std::string_view resource);

// "0x10de" → 0x10de; the class has six digits.
std::optional<std::uint32_t> hex_number(std::string_view text);

}  // namespace tranche::label
