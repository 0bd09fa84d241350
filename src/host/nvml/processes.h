#pragma once
// Process lists of a GPU. The entry size of one and the same symbol has changed between drivers without notice
// (docs/nvml-contract.md), so lists are read with room for the largest entry and the true stride is found from what was
// written. One thread.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "host/nvml/library.h"
#include "host/nvml/nvml.h"

namespace tranche::host::nvml {

inline constexpr std::byte kUnwritten{0xA5};  // buffers are filled with this before the call

// Bytes per entry of a list of `count` entries at the start of `buffer`: 16, 24 or 32. `documented` when in doubt.
std::size_t stride_of(std::span<const std::byte> buffer, std::size_t count, std::size_t documented);

// Entries of `stride` bytes; fields beyond the stride are "unknown".
std::vector<ProcessInfo> entries_of(std::span<const std::byte> buffer, std::size_t count, std::size_t stride);

// Everybody who computes on the GPU, the MPS server and its clients included; one entry per pid, by pid.
// A driver that will not list them gives an empty list.
Result<std::vector<GpuProcess>> read_processes(const Library& library, Device device);

}  // namespace tranche::host::nvml
