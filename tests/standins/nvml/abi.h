#pragma once
// The driver library's binary interface in this stand-in: return codes, structs with their sizes and offsets pinned
// (x86-64 and aarch64 agree). Written from the documented layouts, and on purpose not shared with the product.
#include <cstddef>
#include <cstdint>

namespace tranche::sim::nvml {

using u8 = unsigned char;
using u32 = unsigned int;
using i32 = int;
using u64 = unsigned long long;
using i64 = long long;

// Architectures, as numbered by nvmlDeviceGetArchitecture.
constexpr u32 kTuring = 6, kHopper = 9, kBlackwell = 10;

enum Return : i32 {
  kSuccess = 0,
  kUninitialized = 1,
  kInvalidArgument = 2,
  kNotSupported = 3,
  kNoPermission = 4,
  kNotFound = 6,
  kInsufficientSize = 7,
  kDriverNotLoaded = 9,
  kTimeout = 10,
  kGpuIsLost = 15,
  kResetRequired = 16,
  kInUse = 19,
  kMemory = 20,
  kInsufficientResources = 23,
  kArgumentVersionMismatch = 25,
  kUnknown = 999,
};

struct Handle;  // what device, GPU instance and compute instance handles point to
using Device = const Handle*;
using GpuInstance = const Handle*;
using ComputeInstance = const Handle*;
struct EventSetBody;
using EventSet = EventSetBody*;
struct GpmSampleBody;
using GpmSample = GpmSampleBody*;

// Every struct with a version field carries sizeof | version << 24 there.
template <class Struct>
constexpr u32 version_of(u32 version) {
  return static_cast<u32>(sizeof(Struct)) | version << 24;
}

#define PIN_SIZE(type, size) static_assert(sizeof(type) == (size))
#define PIN(type, field, offset) static_assert(offsetof(type, field) == (offset))

struct PciInfo {
  char bus_id_legacy[16];
  u32 domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};
PIN_SIZE(PciInfo, 68);
PIN(PciInfo, domain, 16);
PIN(PciInfo, pci_device_id, 28);
PIN(PciInfo, bus_id, 36);

struct PciInfoExt {
  u32 version, domain, bus, device, pci_device_id, pci_subsystem_id, base_class, sub_class;
  char bus_id[32];
};
PIN_SIZE(PciInfoExt, 64);
PIN(PciInfoExt, bus_id, 32);
static_assert(version_of<PciInfoExt>(1) == 0x01000040);

struct UuidV1 {
  u32 version, type;
  u8 value[41];
};
PIN_SIZE(UuidV1, 52);
PIN(UuidV1, value, 8);

struct Memory {
  u64 total, free, used;
};
PIN_SIZE(Memory, 24);

struct MemoryV2 {
  u32 version;
  u64 total, reserved, free, used;
};
PIN_SIZE(MemoryV2, 40);
PIN(MemoryV2, total, 8);
PIN(MemoryV2, used, 32);
static_assert(version_of<MemoryV2>(2) == 0x02000028);

struct Utilization {
  u32 gpu, memory;
};
PIN_SIZE(Utilization, 8);

struct Temperature {
  u32 version, sensor;
  std::int32_t degrees;
};
PIN_SIZE(Temperature, 12);

struct ProcessInfoV1 {
  u32 pid;
  u64 used_gpu_memory;
};
PIN_SIZE(ProcessInfoV1, 16);

struct ProcessInfoV2 {
  u32 pid;
  u64 used_gpu_memory;
  u32 gpu_instance_id, compute_instance_id;
};
PIN_SIZE(ProcessInfoV2, 24);
PIN(ProcessInfoV2, used_gpu_memory, 8);
PIN(ProcessInfoV2, gpu_instance_id, 16);

struct ProcessDetail {
  u32 pid;
  u64 used_gpu_memory;
  u32 gpu_instance_id, compute_instance_id;
  u64 used_protected_memory;
};
PIN_SIZE(ProcessDetail, 32);
PIN(ProcessDetail, used_protected_memory, 24);

struct ProcessDetailList {
  u32 version, mode, entry_count;
  ProcessDetail* entries;
};
PIN_SIZE(ProcessDetailList, 24);
PIN(ProcessDetailList, entries, 16);
static_assert(version_of<ProcessDetailList>(1) == 0x01000018);

union Value {
  double d;
  i32 si;
  u32 ui;
  unsigned long ul;
  u64 ull;
  i64 sll;
  unsigned short us;
};
PIN_SIZE(Value, 8);
enum ValueType : i32 { kDouble = 0, kUnsigned = 1, kUnsignedLong = 2, kUnsignedLongLong = 3, kSignedInt = 5 };

struct FieldValue {
  u32 field_id, scope_id;
  i64 timestamp, latency_us;
  ValueType value_type;
  Return result;
  Value value;
};
PIN_SIZE(FieldValue, 40);
PIN(FieldValue, value_type, 24);
PIN(FieldValue, result, 28);
PIN(FieldValue, value, 32);

struct AttributesV1 {
  u32 sms, copy_engines, decoders, encoders, jpegs, ofas;
};
PIN_SIZE(AttributesV1, 24);
struct AttributesV2 {
  u32 sms, copy_engines, decoders, encoders, jpegs, ofas, gpu_instance_slices, compute_instance_slices;
  u64 memory_mib;
};
PIN_SIZE(AttributesV2, 40);
PIN(AttributesV2, memory_mib, 32);

struct OneValue {  // addressing mode, capabilities, NVLink info v1: a version and a number
  u32 version, value;
};
PIN_SIZE(OneValue, 8);

struct EventData {
  Device device;
  u64 type, data;
  u32 gpu_instance_id, compute_instance_id;
};
PIN_SIZE(EventData, 32);
PIN(EventData, gpu_instance_id, 24);

struct FabricInfo {
  u8 cluster_uuid[16];
  Return status;
  u32 clique_id;
  u8 state;
};
PIN_SIZE(FabricInfo, 28);
struct FabricInfoV2 {
  u32 version;
  u8 cluster_uuid[16];
  Return status;
  u32 clique_id;
  u8 state;
  u32 health_mask;
};
PIN_SIZE(FabricInfoV2, 36);
PIN(FabricInfoV2, state, 28);
struct FabricInfoV3 {
  u32 version;
  u8 cluster_uuid[16];
  Return status;
  u32 clique_id;
  u8 state;
  u32 health_mask;
  u8 health_summary;
};
PIN_SIZE(FabricInfoV3, 40);
PIN(FabricInfoV3, health_summary, 36);
static_assert(version_of<FabricInfoV2>(2) == 0x02000024 && version_of<FabricInfoV3>(3) == 0x03000028);

struct GpmSupport {
  u32 version, supported;
};
PIN_SIZE(GpmSupport, 8);
struct GpmMetric {
  u32 id;
  Return result;
  double value;
  const char* names[3];
};
PIN_SIZE(GpmMetric, 40);
struct GpmMetricsGet {
  u32 version, count;
  GpmSample first, second;
  GpmMetric metrics[1];  // `count` entries: the caller's header determines the available space
};
PIN(GpmMetricsGet, metrics, 24);

struct Placement {
  u32 start, size;
};
PIN_SIZE(Placement, 8);

struct GiProfileInfo {
  u32 id, p2p, slices, max_count, sms, copy_engines, decoders, encoders, jpegs, ofas;
  u64 memory_mib;
};
PIN_SIZE(GiProfileInfo, 48);
struct GiProfileInfoV2 {
  u32 version, id, p2p, slices, max_count, sms, copy_engines, decoders, encoders, jpegs, ofas;
  u64 memory_mib;
  char name[96];
};
PIN_SIZE(GiProfileInfoV2, 152);
PIN(GiProfileInfoV2, memory_mib, 48);
PIN(GiProfileInfoV2, name, 56);
struct GiProfileInfoV3 {
  u32 version, id, slices, max_count, sms, copy_engines, decoders, encoders, jpegs, ofas;
  u64 memory_mib;
  char name[96];
  u32 capabilities;
};
PIN_SIZE(GiProfileInfoV3, 152);
PIN(GiProfileInfoV3, memory_mib, 40);
PIN(GiProfileInfoV3, name, 48);
PIN(GiProfileInfoV3, capabilities, 144);

struct GpuInstanceInfo {
  Device device;
  u32 id, profile_id;
  Placement placement;
};
PIN_SIZE(GpuInstanceInfo, 24);

struct CiProfileInfo {
  u32 id, slices, max_count, sms, copy_engines, decoders, encoders, jpegs, ofas;
};
PIN_SIZE(CiProfileInfo, 36);
struct CiProfileInfoV2 {
  u32 version;
  CiProfileInfo info;
  char name[96];
};
PIN_SIZE(CiProfileInfoV2, 136);
PIN(CiProfileInfoV2, name, 40);
struct CiProfileInfoV3 {
  u32 version;
  CiProfileInfo info;
  char name[96];
  u32 capabilities;
};
PIN_SIZE(CiProfileInfoV3, 140);
static_assert(version_of<CiProfileInfoV2>(2) == 0x02000088 && version_of<CiProfileInfoV3>(3) == 0x0300008c);

struct ComputeInstanceInfoV1 {
  Device device;
  GpuInstance gpu_instance;
  u32 id, profile_id;
};
PIN_SIZE(ComputeInstanceInfoV1, 24);
struct ComputeInstanceInfoV2 {
  Device device;
  GpuInstance gpu_instance;
  u32 id, profile_id;
  Placement placement;
};
PIN_SIZE(ComputeInstanceInfoV2, 32);
PIN(ComputeInstanceInfoV2, placement, 24);

#undef PIN
#undef PIN_SIZE

}  // namespace tranche::sim::nvml
