#pragma once
// Owns the management library: finds and opens it, looks up the newest symbols (older ones as fallback) and initialises
// it; the destructor shuts it down. A symbol that a driver lacks is a null pointer, which `call` turns into "not
// supported". One thread at a time. Source of names and fallbacks: docs/internals/nvml-contract.md.
#include <array>
#include <memory>
#include <string>
#include <utility>

#include "base/result.h"
#include "gpu/driver/abi.h"

namespace tranche::host::nvml {

inline constexpr const char* kSoname = "libnvidia-ml.so.1";

struct Functions {
  Return (*init)() = nullptr;
  Return (*shutdown)() = nullptr;
  const char* (*error_string)(Return) = nullptr;
  Return (*driver_version)(char*, std::uint32_t) = nullptr;
  Return (*cuda_driver_version)(std::int32_t*) = nullptr;

  Return (*device_count)(std::uint32_t*) = nullptr;
  Return (*device_by_index)(std::uint32_t, Device*) = nullptr;
  Return (*uuid)(Device, char*, std::uint32_t) = nullptr;
  Return (*name)(Device, char*, std::uint32_t) = nullptr;
  Return (*minor_number)(Device, std::uint32_t*) = nullptr;
  Return (*pci_info)(Device, PciInfo*) = nullptr;
  Return (*pci_info_ext)(Device, PciInfoExt*) = nullptr;
  Return (*compute_capability)(Device, std::int32_t*, std::int32_t*) = nullptr;
  Return (*cuda_cores)(Device, std::uint32_t*) = nullptr;
  Return (*attributes)(Device, DeviceAttributes*) = nullptr;
  Return (*compute_mode)(Device, std::int32_t*) = nullptr;
  Return (*set_compute_mode)(Device, std::int32_t) = nullptr;
  Return (*persistence_mode)(Device, std::int32_t*) = nullptr;
  Return (*fabric_info)(Device, FabricInfo*) = nullptr;
  Return (*fabric_info_v)(Device, FabricInfoV2*) = nullptr;

  Return (*field_values)(Device, std::int32_t, FieldValue*) = nullptr;
  Return (*memory)(Device, Memory*) = nullptr;
  Return (*utilization)(Device, Utilization*) = nullptr;
  Return (*power_usage)(Device, std::uint32_t*) = nullptr;
  Return (*temperature)(Device, std::uint32_t, std::uint32_t*) = nullptr;
  Return (*clock_info)(Device, std::uint32_t, std::uint32_t*) = nullptr;
  Return (*clock_reasons)(Device, std::uint64_t*) = nullptr;
  Return (*gpm_support)(Device, GpmSupport*) = nullptr;
  Return (*gpm_sample_alloc)(GpmSample*) = nullptr;
  Return (*gpm_sample_free)(GpmSample) = nullptr;
  Return (*gpm_sample_get)(Device, GpmSample) = nullptr;
  Return (*gpm_mig_sample_get)(Device, std::uint32_t, GpmSample) = nullptr;
  Return (*gpm_metrics_get)(GpmMetricsGet*) = nullptr;
  Return (*compute_processes)(Device, std::uint32_t*, void*) = nullptr;
  std::size_t compute_processes_entry = 24;  // documented entry size of this symbol
  Return (*mps_processes)(Device, std::uint32_t*, void*) = nullptr;
  std::size_t mps_processes_entry = 24;

  Return (*common_ancestor)(Device, Device, std::int32_t*) = nullptr;
  Return (*nvlink_state)(Device, std::uint32_t, std::int32_t*) = nullptr;
  Return (*nvlink_remote_pci)(Device, std::uint32_t, PciInfo*) = nullptr;
  Return (*nvlink_remote_type)(Device, std::uint32_t, std::uint32_t*) = nullptr;

  Return (*mig_mode)(Device, std::uint32_t*, std::uint32_t*) = nullptr;
  Return (*max_mig_devices)(Device, std::uint32_t*) = nullptr;
  Return (*mig_device_by_index)(Device, std::uint32_t, Device*) = nullptr;
  Return (*gpu_instance_id)(Device, std::uint32_t*) = nullptr;
  Return (*compute_instance_id)(Device, std::uint32_t*) = nullptr;
  Return (*gpu_instance_by_id)(Device, std::uint32_t, GpuInstance*) = nullptr;
  Return (*gpu_instance_info)(GpuInstance, GpuInstanceInfo*) = nullptr;
  Return (*gpu_instance_profile)(Device, std::uint32_t, GpuInstanceProfileInfo*) = nullptr;

  Return (*set_mig_mode)(Device, std::uint32_t, Return*) = nullptr;
  Return (*gpu_instance_placements)(Device, std::uint32_t, GpuInstancePlacement*, std::uint32_t*) = nullptr;
  Return (*gpu_instances)(Device, std::uint32_t, GpuInstance*, std::uint32_t*) = nullptr;
  Return (*create_gpu_instance)(Device, std::uint32_t, const GpuInstancePlacement*, GpuInstance*) = nullptr;
  Return (*destroy_gpu_instance)(GpuInstance) = nullptr;
  Return (*compute_instance_profile)(GpuInstance, std::uint32_t, std::uint32_t, ComputeInstanceProfileInfo*) = nullptr;
  Return (*compute_instances)(GpuInstance, std::uint32_t, ComputeInstance*, std::uint32_t*) = nullptr;
  Return (*compute_instance_by_id)(GpuInstance, std::uint32_t, ComputeInstance*) = nullptr;
  Return (*compute_instance_info)(ComputeInstance, ComputeInstanceInfo*) = nullptr;
  Return (*create_compute_instance)(GpuInstance, std::uint32_t, ComputeInstance*) = nullptr;
  Return (*destroy_compute_instance)(ComputeInstance) = nullptr;

  Return (*event_set_create)(EventSet*) = nullptr;
  Return (*event_set_free)(EventSet) = nullptr;
  Return (*supported_events)(Device, std::uint64_t*) = nullptr;
  Return (*register_events)(Device, std::uint64_t, EventSet) = nullptr;
  Return (*event_wait)(EventSet, EventData*, std::uint32_t) = nullptr;
  bool event_wait_fills_instances = true;  // the unsuffixed call may leave the two instance ids unwritten
};

template <class... P, class... A>
Return call(Return (*function)(P...), A... arguments) {
  return function == nullptr ? Return::kNotSupported : function(arguments...);
}

// A text that a call reports of a device, such as its UUID; `text` stays as it is if the call fails.
template <class F>
Return read_text(F* function, Device device, std::string& text) {
  std::array<char, kLongestText + 1> buffer{};
  const Return code = call(function, device, buffer.data(), static_cast<std::uint32_t>(kLongestText));
  if (code == Return::kSuccess) text = buffer.data();
  return code;
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

 private:
  Library() = default;
  Functions functions_;
  void* handle_ = nullptr;
  bool initialised_ = false;
  std::string path_;
};

}  // namespace tranche::host::nvml
