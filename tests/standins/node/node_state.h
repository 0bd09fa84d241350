#pragma once
// The changing part of a simulated node, in the mapped state file. Plain data without pointers, because every process
// maps it at a different address. Code outside this folder gets copies through Node.
#include <cstdint>

#include "fixed_text.h"
#include "gpu_profile.h"
#include "topology.h"

namespace tranche::sim {

inline constexpr std::uint32_t kWholeGpu = 0xffffffff;  // no GPU instance
inline constexpr std::uint32_t kMaxGpuInstances = 15;
inline constexpr std::uint32_t kMaxComputeInstances = 8;

struct ComputeInstanceState {
  std::uint32_t used;   // 0: the slot is free
  std::uint32_t id;     // unique in its GPU instance
  std::uint32_t index;  // of the MIG device on its GPU; does not change when others are destroyed
  std::uint32_t profile_id;
  std::uint32_t slices;
  std::uint32_t start;
  std::uint32_t sm_count;
  std::int32_t compute_mode;
  FixedText<48> uuid;  // "MIG-…"
};

struct GpuInstanceState {
  std::uint32_t used;
  std::uint32_t id;
  std::uint32_t profile;  // index into MigTraits::profiles
  std::uint32_t start;    // memory slice
  ComputeInstanceState compute[kMaxComputeInstances];
};

struct EccCounts {
  std::uint64_t corrected_volatile, uncorrected_volatile, corrected_aggregate, uncorrected_aggregate;
};

struct GpuState {
  GpuProfile profile;
  FixedText<48> uuid;
  FixedText<24> bus_id;  // "00000000:1B:00.0"
  FixedText<24> serial;
  TopologySlot slot;
  std::uint32_t minor;
  std::int32_t compute_mode;
  std::uint32_t persistence;
  std::uint32_t lost;         // every call on it returns GPU_IS_LOST
  std::uint32_t unplugged;    // at its next start the driver library does not count it, and calls on it fail
  std::uint64_t extra_bytes;  // memory in use that is not in a process row
  std::uint32_t utilization, memory_utilization;
  std::uint32_t temperature_c, power_mw;
  std::uint64_t energy_mj, power_since_ms;  // drawn until power_mw was set, and when that was
  std::uint32_t power_limit_mw;
  std::uint32_t recovery_action;  // field 230
  std::uint32_t dead_links;       // bit mask
  EccCounts ecc;
  std::uint32_t mig_mode, mig_pending;
  std::uint32_t mig_lies;    // calls that returned success and did nothing, for tests
  std::uint64_t mig_births;  // makes the UUID of every compute instance unique
  GpuInstanceState instances[kMaxGpuInstances];
};

// A driver library call that misbehaves:
// kFail       returns a code and does nothing
// kHang       returns late
// kLie        returns success and does nothing (a destroy of a GPU instance does: NVIDIA/go-nvml issue 146)
// kKill       the calling program is killed before the call has any effect
// kKillAfter  the calling program is killed after the call has taken effect
enum class FaultKind : std::uint32_t { kFail = 1, kHang = 2, kLie = 3, kKill = 4, kKillAfter = 5 };
struct Fault {
  FixedText<80> call;  // "nvmlDeviceGetUUID", "*" for every call, "nvmlDeviceCreate*" for a prefix
  std::int32_t gpu;    // -1: any GPU
  FaultKind kind;
  std::uint32_t value;  // the code to return, or how many milliseconds to hang; 0 ms = until cleared
  std::uint32_t skip;   // number of calls to skip first
  std::uint32_t times;  // number of calls that then misbehave; 0: all
};

}  // namespace tranche::sim
