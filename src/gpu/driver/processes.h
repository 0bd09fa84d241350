#pragma once
// Process lists of a GPU. The entry size of the same symbol has changed between drivers without notice
// (docs/internals/nvml-contract.md), so the buffer has room for the largest entry, and the actual stride is derived
// from what the driver wrote. One thread.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "gpu/driver/library.h"
#include "gpu/driver/nvml.h"

namespace tranche::gpu::nvml {

inline constexpr std::byte kUnwritten{0xA5};  // buffers are filled with this before the call

// Bytes per entry of a list of `count` entries at the start of `buffer`: 16, 24 or 32; 24, as documented, if that is
// ambiguous.
std::size_t stride_of(std::span<const std::byte> buffer, std::size_t count);

// Entries of `stride` bytes; fields beyond the stride are "unknown".
std::vector<ProcessInfo> entries_of(std::span<const std::byte> buffer, std::size_t count, std::size_t stride);

struct ProcessList {
  Return code = Return::kSuccess;
  std::vector<ProcessInfo> entries;  // none unless the call succeeded
};
// One list of one GPU.
ProcessList list_processes(Return (*function)(Device, std::uint32_t*, void*), Device device);

// All processes that compute on the GPU, including the MPS server and its clients; one entry per pid, by pid. Empty if
// the driver does not list them.
Result<std::vector<GpuHolder>> read_processes(const Library& library, Device device);

}  // namespace tranche::gpu::nvml
