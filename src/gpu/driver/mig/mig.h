#pragma once
// MIG devices of a GPU. Every slot is queried, because destroyed devices leave gaps, and each device gets the profile
// text that NVIDIA's programs give it. One thread.
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "gpu/driver/library.h"
#include "gpu/driver/nvml.h"
#include "gpu/inventory/inventory.h"

namespace tranche::gpu::nvml {

// "1g.18gb", "1c.2g.35gb": computed from the instance's own memory and its parent's total, so that it agrees with names
// that other clients of the library compute. `suffix` is "", "+me", "+me.all", "+gfx", "-me".
std::string profile_text(std::uint32_t gi_slices, std::uint32_t ci_slices, std::uint64_t memory_mib,
                         std::uint64_t parent_bytes, std::string_view suffix);

// The suffix for NVML's number of a GPU-instance profile (0 to 17).
std::string_view profile_suffix(std::uint32_t profile_number);

// Calls take(number, profile) for each GPU-instance profile that the driver has for a GPU, until that returns true.
template <typename Take>
void each_profile(const Functions& f, Device gpu, Take take) {
  for (std::uint32_t number = 0; number < kGpuInstanceProfiles; ++number) {
    GpuInstanceProfileInfo profile{};
    const Return code = call(f.gpu_instance_profile, gpu, number, &profile);
    if (code == Return::kInvalidArgument) return;                   // past the last profile of the driver
    if (code == Return::kSuccess && take(number, profile)) return;  // otherwise a gap
  }
}

// Fills mig_capable, mig_enabled, max_mig_devices and mig_devices of `gpu`, whose memory must be known. Devices that do
// not answer are omitted, one sentence each in `unreadable`.
Status read_mig(const Library& library, Device device, Gpu& gpu, std::vector<std::string>& unreadable);

}  // namespace tranche::gpu::nvml
