#pragma once
// Process lists of a GPU. The entry size of the same symbol has changed between drivers without notice
// (docs/internals/nvml-contract.md), so the buffer has room for the largest entry, and the actual stride is derived
// from what the driver wrote. One thread.
#include <cstddef>
#include <cstdint>
#include <optional>
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

// Reads one list of one GPU repeatedly. An unchanged list costs the call and two passes over a few kilobytes.
class ProcessList {
 public:
  using Call = Return (*)(Device, std::uint32_t*, void*);
  bool read(Call function, Device device);  // false: unchanged since the last read
  Return code() const { return code_; }
  const std::vector<ProcessInfo>& entries() const { return entries_; }  // empty unless the call succeeded

 private:
  std::uint32_t capacity_ = 64;    // MPS serves 48 to 60 clients: one call is nearly always enough
  std::vector<std::byte> buffer_;  // for the next call
  std::vector<std::byte> seen_;    // the last list that had changed
  std::optional<std::uint32_t> count_;
  Return code_ = Return::kSuccess;
  std::vector<ProcessInfo> entries_;
};

// All processes that compute on the GPU, including the MPS server and its clients; one entry per pid, by pid. Empty if
// the driver does not list them.
Result<std::vector<GpuHolder>> read_processes(const Library& library, Device device);

}  // namespace tranche::gpu::nvml
