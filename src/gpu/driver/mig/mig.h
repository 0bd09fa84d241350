#pragma once
// MIG devices of a GPU: slots are asked one by one because emptied ones leave gaps, and each gets the profile text that
// NVIDIA's programs give it. One thread.
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "gpu/driver/library.h"
#include "gpu/driver/nvml.h"
#include "gpu/inventory/inventory.h"

namespace tranche::host::nvml {

// "1g.18gb", "1c.2g.35gb": the rule of facts 3.2, computed from the instance's own memory and its parent's total, so
// that it agrees with names that other clients of the library compute. `suffix` is "", "+me", "+me.all", "+gfx", "-me".
std::string profile_text(std::uint32_t gi_slices, std::uint32_t ci_slices, std::uint64_t memory_mib,
                         std::uint64_t parent_bytes, std::string_view suffix);

// The suffix that goes with NVML's number of a GPU-instance profile (0 to 17).
std::string_view profile_suffix(std::uint32_t profile_number);

// Fills mig_capable, mig_enabled, max_mig_devices and mig_devices of `gpu`, whose memory is known. Devices that do not
// answer are left out, one sentence each in `unreadable`.
Status read_mig(const Library& library, Device device, inventory::Gpu& gpu, std::vector<std::string>& unreadable);

}  // namespace tranche::host::nvml
