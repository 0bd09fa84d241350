#pragma once
// Owns the management library: finds and opens it, looks up the newest symbols (older ones as fallback) and initialises
// it; the destructor shuts it down. A symbol that a driver lacks is a null pointer, which `call` turns into "not
// supported". One thread at a time. Source of names and fallbacks: docs/internals/nvml-contract.md.
#include <array>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "gpu/driver/abi.h"
#include "os/library/shared_library.h"

namespace tranche::gpu::nvml {

inline constexpr const char* kSoname = "libnvidia-ml.so.1";

// The functions of a mapped library, each by the first of its names that the library has.
struct Functions {
  explicit Functions(void* handle = nullptr) : library(handle) {}  // nullptr: none
  os::Symbol find(std::initializer_list<const char*> names) const { return os::find_symbol(library, names); }
  void* library;  // stands first: the functions are looked up in it

  Return (*init)() = find({"nvmlInit_v2"});
  Return (*shutdown)() = find({"nvmlShutdown"});
  const char* (*error_string)(Return) = find({"nvmlErrorString"});
  Return (*driver_version)(char*, std::uint32_t) = find({"nvmlSystemGetDriverVersion"});
  Return (*cuda_driver_version)(std::int32_t*) = find({"nvmlSystemGetCudaDriverVersion_v2"});

  Return (*device_count)(std::uint32_t*) = find({"nvmlDeviceGetCount_v2"});
  Return (*device_by_index)(std::uint32_t, Device*) = find({"nvmlDeviceGetHandleByIndex_v2"});
  Return (*uuid)(Device, char*, std::uint32_t) = find({"nvmlDeviceGetUUID"});
  Return (*name)(Device, char*, std::uint32_t) = find({"nvmlDeviceGetName"});
  Return (*minor_number)(Device, std::uint32_t*) = find({"nvmlDeviceGetMinorNumber"});
  Return (*pci_info)(Device, PciInfo*) = find({"nvmlDeviceGetPciInfo_v3"});
  Return (*compute_capability)(Device, std::int32_t*, std::int32_t*) = find({"nvmlDeviceGetCudaComputeCapability"});
  Return (*cuda_cores)(Device, std::uint32_t*) = find({"nvmlDeviceGetNumGpuCores"});
  Return (*attributes)(Device, DeviceAttributes*) = find({"nvmlDeviceGetAttributes_v2"});
  Return (*compute_mode)(Device, std::int32_t*) = find({"nvmlDeviceGetComputeMode"});
  Return (*set_compute_mode)(Device, std::int32_t) = find({"nvmlDeviceSetComputeMode"});
  Return (*persistence_mode)(Device, std::int32_t*) = find({"nvmlDeviceGetPersistenceMode"});
  Return (*fabric_info)(Device, FabricInfo*) = find({"nvmlDeviceGetGpuFabricInfoV"});

  Return (*field_values)(Device, std::int32_t, FieldValue*) = find({"nvmlDeviceGetFieldValues"});
  Return (*memory)(Device, Memory*) = find({"nvmlDeviceGetMemoryInfo"});
  Return (*utilization)(Device, Utilization*) = find({"nvmlDeviceGetUtilizationRates"});
  Return (*power_usage)(Device, std::uint32_t*) = find({"nvmlDeviceGetPowerUsage"});
  Return (*temperature)(Device, Temperature*) = find({"nvmlDeviceGetTemperatureV"});
  // Of drivers before 570; CUDA 14 removes it.
  Return (*temperature_before)(Device, std::uint32_t, std::uint32_t*) = find({"nvmlDeviceGetTemperature"});
  Return (*clock_info)(Device, std::uint32_t, std::uint32_t*) = find({"nvmlDeviceGetClockInfo"});
  Return (*clock_reasons)(Device, std::uint64_t*) = find({"nvmlDeviceGetCurrentClocksEventReasons",
                                                          "nvmlDeviceGetCurrentClocksThrottleReasons"});
  Return (*gpm_support)(Device, GpmSupport*) = find({"nvmlGpmQueryDeviceSupport"});
  Return (*gpm_sample_alloc)(GpmSample*) = find({"nvmlGpmSampleAlloc"});
  Return (*gpm_sample_free)(GpmSample) = find({"nvmlGpmSampleFree"});
  Return (*gpm_sample_get)(Device, GpmSample) = find({"nvmlGpmSampleGet"});
  Return (*gpm_mig_sample_get)(Device, std::uint32_t, GpmSample) = find({"nvmlGpmMigSampleGet"});
  Return (*gpm_metrics_get)(GpmMetricsGet*) = find({"nvmlGpmMetricsGet"});
  Return (*compute_processes)(Device, std::uint32_t*, void*) = find({"nvmlDeviceGetComputeRunningProcesses_v3",
                                                                     "nvmlDeviceGetComputeRunningProcesses_v2"});
  Return (*mps_processes)(Device, std::uint32_t*, void*) = find({"nvmlDeviceGetMPSComputeRunningProcesses_v3",
                                                                 "nvmlDeviceGetMPSComputeRunningProcesses_v2"});

  Return (*common_ancestor)(Device, Device, std::int32_t*) = find({"nvmlDeviceGetTopologyCommonAncestor"});
  Return (*nvlink_state)(Device, std::uint32_t, std::int32_t*) = find({"nvmlDeviceGetNvLinkState"});
  Return (*nvlink_remote_pci)(Device, std::uint32_t, PciInfo*) = find({"nvmlDeviceGetNvLinkRemotePciInfo_v2"});
  Return (*nvlink_remote_type)(Device, std::uint32_t, std::uint32_t*) = find({"nvmlDeviceGetNvLinkRemoteDeviceType"});

  Return (*mig_mode)(Device, std::uint32_t*, std::uint32_t*) = find({"nvmlDeviceGetMigMode"});
  Return (*max_mig_devices)(Device, std::uint32_t*) = find({"nvmlDeviceGetMaxMigDeviceCount"});
  Return (*mig_device_by_index)(Device, std::uint32_t, Device*) = find({"nvmlDeviceGetMigDeviceHandleByIndex"});
  Return (*gpu_instance_id)(Device, std::uint32_t*) = find({"nvmlDeviceGetGpuInstanceId"});
  Return (*compute_instance_id)(Device, std::uint32_t*) = find({"nvmlDeviceGetComputeInstanceId"});
  Return (*gpu_instance_by_id)(Device, std::uint32_t, GpuInstance*) = find({"nvmlDeviceGetGpuInstanceById"});
  Return (*gpu_instance_info)(GpuInstance, GpuInstanceInfo*) = find({"nvmlGpuInstanceGetInfo"});
  Return (*gpu_instance_profile)(Device, std::uint32_t,
                                 GpuInstanceProfileInfo*) = find({"nvmlDeviceGetGpuInstanceProfileInfo"});

  Return (*set_mig_mode)(Device, std::uint32_t, Return*) = find({"nvmlDeviceSetMigMode"});
  Return (*gpu_instance_placements)(Device, std::uint32_t, GpuInstancePlacement*,
                                    std::uint32_t*) = find({"nvmlDeviceGetGpuInstancePossiblePlacements_v2"});
  Return (*gpu_instances)(Device, std::uint32_t, GpuInstance*, std::uint32_t*) = find({"nvmlDeviceGetGpuInstances"});
  Return (*create_gpu_instance)(Device, std::uint32_t, const GpuInstancePlacement*,
                                GpuInstance*) = find({"nvmlDeviceCreateGpuInstanceWithPlacement"});
  Return (*destroy_gpu_instance)(GpuInstance) = find({"nvmlGpuInstanceDestroy"});
  Return (*compute_instance_profile)(GpuInstance, std::uint32_t, std::uint32_t, ComputeInstanceProfileInfo*) =
      find({"nvmlGpuInstanceGetComputeInstanceProfileInfo"});
  Return (*compute_instances)(GpuInstance, std::uint32_t, ComputeInstance*,
                              std::uint32_t*) = find({"nvmlGpuInstanceGetComputeInstances"});
  Return (*compute_instance_by_id)(GpuInstance, std::uint32_t,
                                   ComputeInstance*) = find({"nvmlGpuInstanceGetComputeInstanceById"});
  Return (*compute_instance_info)(ComputeInstance, ComputeInstanceInfo*) = find({"nvmlComputeInstanceGetInfo_v2"});
  Return (*create_compute_instance)(GpuInstance, std::uint32_t,
                                    ComputeInstance*) = find({"nvmlGpuInstanceCreateComputeInstance"});
  Return (*destroy_compute_instance)(ComputeInstance) = find({"nvmlComputeInstanceDestroy"});

  Return (*event_set_create)(EventSet*) = find({"nvmlEventSetCreate"});
  Return (*event_set_free)(EventSet) = find({"nvmlEventSetFree"});
  Return (*supported_events)(Device, std::uint64_t*) = find({"nvmlDeviceGetSupportedEventTypes"});
  Return (*register_events)(Device, std::uint64_t, EventSet) = find({"nvmlDeviceRegisterEvents"});
  Return (*event_wait)(EventSet, EventData*, std::uint32_t) = find({"nvmlEventSetWait_v2"});
};

template <class... P, class... A>
Return call(Return (*function)(P...), A... arguments) {
  return function == nullptr ? Return::kNotSupported : function(arguments...);
}

// What a call reports of a device; absent if the call fails.
template <class Value>
std::optional<Value> reported(Return (*function)(Device, Value*), Device device) {
  Value value{};
  if (call(function, device, &value) != Return::kSuccess) return std::nullopt;
  return value;
}

// A text that a call reports of a device, such as its UUID; `text` stays as it is if the call fails.
template <class F>
Return read_text(F* function, Device device, std::string& text) {
  std::array<char, kLongestText + 1> buffer{};
  const Return code = call(function, device, buffer.data(), static_cast<std::uint32_t>(kLongestText));
  if (code == Return::kSuccess) text = buffer.data();
  return code;
}

// The values of fields of a device that are whole numbers; absent if the driver does not report one.
template <std::size_t kCount>
std::array<std::optional<std::uint64_t>, kCount> read_fields(const Functions& f, Device device,
                                                             const std::array<std::uint32_t, kCount>& ids) {
  std::array<FieldValue, kCount> fields{};
  for (std::size_t i = 0; i < kCount; ++i) {
    fields[i].field = ids[i];
    fields[i].result = Return::kUnknown;
  }
  std::array<std::optional<std::uint64_t>, kCount> values;
  if (call(f.field_values, device, static_cast<std::int32_t>(kCount), fields.data()) != Return::kSuccess) return values;
  for (std::size_t i = 0; i < kCount; ++i) {
    const auto type = fields[i].result == Return::kSuccess ? fields[i].value_type : -1;
    if (type == kValueUnsigned) values[i] = fields[i].value.u32;
    if (type == kValueUnsignedLong || type == kValueUnsignedLongLong) values[i] = fields[i].value.u64;
  }
  return values;
}

class Library {
 public:
  // driver_root: where the driver's user-space libraries are mounted; with "" or "/" only the loader's search path is
  // used. kUnavailable: no library or no driver yet. kConflict: the driver was replaced under this library.
  static Result<std::unique_ptr<Library>> open(const std::string& driver_root);
  // For a platform without the library: every call returns "not supported".
  static std::unique_ptr<Library> none();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library();

  const Functions& functions() const { return functions_; }
  const std::string& path() const { return path_; }                      // of the file that the loader mapped
  Error error(Return code, std::string doing, std::string where) const;  // includes the library's own text for the code
  // The same error, unless `code` is kSuccess.
  Status check(Return code, std::string_view doing, std::string_view where) const;

 private:
  Library() = default;
  Functions functions_;
  void* handle_ = nullptr;
  bool initialised_ = false;
  std::string path_;
};

}  // namespace tranche::gpu::nvml
