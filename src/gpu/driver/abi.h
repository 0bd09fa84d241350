#pragma once
// This project's own declarations of the part of NVIDIA's management library (NVML) that it calls: the C ABI of x86-64
// and aarch64 Linux, drivers 470 to 610. Nothing is linked: library.h looks the symbols up at run time. The assertions
// below pin the layouts; docs/internals/nvml-contract.md lists the other assumptions.
#include <cstddef>
#include <cstdint>

#include "gpu/mig/state.h"

namespace tranche::gpu::nvml {

using Device = struct DeviceHandle*;                    // opaque, 8 bytes; invalid after the last shutdown
using EventSet = struct EventSetHandle*;                // one thread at a time
using GpuInstance = struct GpuInstanceHandle*;          // invalid once the instance is destroyed
using ComputeInstance = struct ComputeInstanceHandle*;  // the same

enum class Return : std::int32_t {
  kSuccess = 0,
  kInvalidArgument = 2,
  kNotSupported = 3,
  kNoPermission = 4,
  kNotFound = 6,
  kInsufficientSize = 7,
  kDriverNotLoaded = 9,
  kTimeout = 10,
  kFunctionNotFound = 13,
  kGpuIsLost = 15,
  kResetRequired = 16,
  kOperatingSystem = 17,
  kVersionMismatch = 18,
  kInUse = 19,
  kArgumentVersionMismatch = 25,
  kGpuNotFound = 28,
  kUnknown = 999,
};

inline constexpr std::size_t kLongestText = 95;  // of a name or a UUID
inline constexpr std::size_t kVersionLength = 80;
inline constexpr std::uint32_t kNoInstance = 0xffffffff;
inline constexpr std::uint64_t kMemoryNotAvailable = ~std::uint64_t{0};

// Event bits of RegisterEvents.
inline constexpr std::uint64_t kEventXid = 0x8;
inline constexpr std::uint64_t kEventMigChange = 0x100;
inline constexpr std::uint64_t kEventDemand = 0x8000;  // the value of field 230 has changed; since 570

struct PciInfo {
  char bus_id_legacy[16];
  std::uint32_t domain;
  std::uint32_t bus;
  std::uint32_t device;
  std::uint32_t pci_device_id;
  std::uint32_t pci_subsystem_id;
  char bus_id[32];
};
static_assert(sizeof(PciInfo) == 68 && alignof(PciInfo) == 4 && offsetof(PciInfo, bus_id) == 36);

struct Memory {
  std::uint64_t total;
  std::uint64_t free;
  std::uint64_t used;  // includes the memory that the driver reserves
};
static_assert(sizeof(Memory) == 24 && offsetof(Memory, used) == 16);

struct Utilization {
  std::uint32_t gpu;
  std::uint32_t memory;
};
static_assert(sizeof(Utilization) == 8);

struct DeviceAttributes {
  std::uint32_t multiprocessor_count;
  std::uint32_t shared_copy_engine_count;
  std::uint32_t shared_decoder_count;
  std::uint32_t shared_encoder_count;
  std::uint32_t shared_jpeg_count;
  std::uint32_t shared_ofa_count;
  std::uint32_t gpu_instance_slice_count;
  std::uint32_t compute_instance_slice_count;
  std::uint64_t memory_size_mib;
};
static_assert(sizeof(DeviceAttributes) == 40 && offsetof(DeviceAttributes, gpu_instance_slice_count) == 24 &&
              offsetof(DeviceAttributes, memory_size_mib) == 32);

// The longest process-list entry of any driver (535.43 to 535.86). Older and newer drivers write its first 24 bytes.
struct ProcessInfo {
  std::uint32_t pid;
  std::uint64_t used_gpu_memory;
  std::uint32_t gpu_instance;
  std::uint32_t compute_instance;
  std::uint64_t used_protected_memory;
};
static_assert(sizeof(ProcessInfo) == 32 && offsetof(ProcessInfo, used_gpu_memory) == 8 &&
              offsetof(ProcessInfo, gpu_instance) == 16 && offsetof(ProcessInfo, used_protected_memory) == 24);

struct FieldValue {
  std::uint32_t field;
  std::uint32_t scope;
  std::int64_t timestamp;
  std::int64_t latency;
  std::int32_t value_type;
  Return result;  // of this entry
  union {
    std::uint32_t u32;
    std::uint64_t u64;
  } value;
};
static_assert(sizeof(FieldValue) == 40 && offsetof(FieldValue, value_type) == 24 &&
              offsetof(FieldValue, result) == 28 && offsetof(FieldValue, value) == 32);
inline constexpr std::uint32_t kFieldRecoveryAction = 230;
inline constexpr std::int32_t kValueUnsigned = 1, kValueUnsignedLong = 2, kValueUnsignedLongLong = 3;

struct Temperature {
  std::uint32_t version;
  std::uint32_t sensor;
  std::int32_t celsius;
};
static_assert(sizeof(Temperature) == 12);
inline constexpr std::uint32_t kTemperatureVersion = 0x0100000c;

using GpmSample = struct GpmSampleHandle*;
struct GpmSupport {
  std::uint32_t version;  // plain 1, as in all GPM structs
  std::uint32_t supported;
};
static_assert(sizeof(GpmSupport) == 8);
struct GpmMetric {
  std::uint32_t id;
  Return result;  // of this entry
  double value;
  const char* names[3];
};
static_assert(sizeof(GpmMetric) == 40 && offsetof(GpmMetric, value) == 8);
inline constexpr std::size_t kGpmMetrics = 98;  // in the oldest header; newer ones have room for more
struct GpmMetricsGet {
  std::uint32_t version;
  std::uint32_t count;
  GpmSample first;
  GpmSample second;
  GpmMetric metrics[kGpmMetrics];
};
static_assert(sizeof(GpmMetricsGet) == 3944 && offsetof(GpmMetricsGet, metrics) == 24);

struct EventData {
  Device device;
  std::uint64_t event_type;
  std::uint64_t event_data;
  std::uint32_t gpu_instance;
  std::uint32_t compute_instance;
};
static_assert(sizeof(EventData) == 32 && offsetof(EventData, event_type) == 8 &&
              offsetof(EventData, gpu_instance) == 24);

using GpuInstancePlacement = mig::Placement;
static_assert(sizeof(GpuInstancePlacement) == 8 && offsetof(GpuInstancePlacement, size) == 4);
struct GpuInstanceInfo {
  Device device;
  std::uint32_t id;
  std::uint32_t profile_id;
  GpuInstancePlacement placement;
};
static_assert(sizeof(GpuInstanceInfo) == 24 && offsetof(GpuInstanceInfo, profile_id) == 12);

struct GpuInstanceProfileInfo {
  std::uint32_t id;
  std::uint32_t is_p2p_supported;
  std::uint32_t slice_count;
  std::uint32_t instance_count;
  std::uint32_t multiprocessor_count;
  std::uint32_t copy_engine_count;
  std::uint32_t decoder_count;
  std::uint32_t encoder_count;
  std::uint32_t jpeg_count;
  std::uint32_t ofa_count;
  std::uint64_t memory_size_mib;
};
static_assert(sizeof(GpuInstanceProfileInfo) == 48 && offsetof(GpuInstanceProfileInfo, memory_size_mib) == 40);
inline constexpr std::uint32_t kGpuInstanceProfiles = 32;  // more than any driver has; enumeration ends earlier

struct ComputeInstanceInfo {
  Device device;
  GpuInstance gpu_instance;
  std::uint32_t id;
  std::uint32_t profile_id;
  GpuInstancePlacement placement;  // in compute slices of the GPU instance
};
static_assert(sizeof(ComputeInstanceInfo) == 32 && offsetof(ComputeInstanceInfo, placement) == 24);

struct ComputeInstanceProfileInfo {
  std::uint32_t id;
  std::uint32_t slice_count;
  std::uint32_t instance_count;
  std::uint32_t multiprocessor_count;
  std::uint32_t shared_copy_engine_count;
  std::uint32_t shared_decoder_count;
  std::uint32_t shared_encoder_count;
  std::uint32_t shared_jpeg_count;
  std::uint32_t shared_ofa_count;
};
static_assert(sizeof(ComputeInstanceProfileInfo) == 36);
inline constexpr std::uint32_t kComputeInstanceProfiles = 16;  // more than any driver has
inline constexpr std::uint32_t kSharedEngines = 0;             // the only engine profile
inline constexpr std::uint32_t kMostInstances = 16;            // per GPU, and compute instances per GPU instance
inline constexpr std::uint32_t kMostPlacements = 64;

struct FabricInfo {  // the oldest that the versioned call has
  std::uint32_t version;
  std::uint8_t cluster_uuid[16];
  std::int32_t status;
  std::uint32_t clique_id;
  std::uint8_t state;
  std::uint32_t health_mask;
};
static_assert(sizeof(FabricInfo) == 36 && offsetof(FabricInfo, clique_id) == 24 && offsetof(FabricInfo, state) == 28);
inline constexpr std::uint32_t kFabricInfoVersion = 0x02000024;
inline constexpr std::uint8_t kFabricCompleted = 3;

inline constexpr std::uint32_t kMaxNvLinks = 36;  // the largest value in any header so far
inline constexpr std::uint32_t kRemoteIsGpu = 0;  // nvmlDeviceGetNvLinkRemoteDeviceType
inline constexpr std::int32_t kEnabled = 1;

}  // namespace tranche::gpu::nvml
