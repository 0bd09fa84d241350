#pragma once
// The value of CUDA_MPS_PINNED_DEVICE_MEM_LIMIT, with which a client lowers its own memory limit below the daemon's.
// The driver drops *every* limit of a client if it cannot parse the value or if the value names a device that the
// client does not see (docs/internals/mps-contract.md, "Client variables"). A value is therefore used only after
// parse_pinned_limit has accepted it.
//
// Strict on purpose: only forms that are known to limit are accepted. Ordinals count the client's visible devices and
// are refused; so are numbers without a unit, zero, negative and repeated entries, blanks and empty pieces.
// Pure; fuzzed (tests/fuzz/mps_fuzz.cpp): parse ∘ render is the identity for whole MiB.
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace tranche::plan {

inline constexpr const char* kPinnedLimitVariable = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT";
inline constexpr const char* kThreadPercentageVariable = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE";
inline constexpr const char* kPipeVariable = "CUDA_MPS_PIPE_DIRECTORY";
inline constexpr const char* kLogVariable = "CUDA_MPS_LOG_DIRECTORY";

using DeviceMemory = std::pair<std::string, Bytes>;  // device UUID, limit

// "GPU-…=14377M,GPU-…=43131M": in the order given, whole MiB rounded down.
std::string render_pinned_limit(std::span<const DeviceMemory> limits);

// In the order written. "" sets no client limit (the daemon's applies) and gives an empty list.
Result<std::vector<DeviceMemory>> parse_pinned_limit(std::string_view text);

// "GPU-" and 8-4-4-4-12 hexadecimal digits: a whole GPU's full UUID, the only key that is valid for every view of the
// devices. A MIG device's name is refused: this kind of MPS does not serve MIG devices.
bool is_gpu_uuid(std::string_view text);

}  // namespace tranche::plan
