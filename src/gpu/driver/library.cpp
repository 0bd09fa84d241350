#include "gpu/driver/library.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>

#include <cstdint>
#include <initializer_list>

#include "os/loop/fd.h"

#include "gpu/platform/signs.h"

namespace tranche::host::nvml {
namespace {

template <class F>
const char* look_up(void* handle, F*& function, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (void* symbol = ::dlsym(handle, name); symbol != nullptr) {
      function = reinterpret_cast<F*>(symbol);
      return name;
    }
  }
  return nullptr;
}

// v1 and v2 of count and index number the GPUs differently when a GPU must not be used: use one version for both.
void look_up_enumeration(void* handle, Functions& f) {
  look_up(handle, f.device_count, {"nvmlDeviceGetCount_v2"});
  look_up(handle, f.device_by_index, {"nvmlDeviceGetHandleByIndex_v2"});
  if (f.device_count != nullptr && f.device_by_index != nullptr) return;
  look_up(handle, f.device_count, {"nvmlDeviceGetCount"});
  look_up(handle, f.device_by_index, {"nvmlDeviceGetHandleByIndex"});
}

template <class F>
std::size_t look_up_processes(void* handle, F*& function, const std::string& base) {
  const std::string v3 = base + "_v3", v2 = base + "_v2";
  if (look_up(handle, function, {v3.c_str(), v2.c_str()}) != nullptr) return 24;
  look_up(handle, function, {base.c_str()});
  return 16;
}

void look_up_all(void* handle, Functions& f) {
  look_up(handle, f.init, {"nvmlInit_v2", "nvmlInit"});
  look_up(handle, f.shutdown, {"nvmlShutdown"});
  look_up(handle, f.error_string, {"nvmlErrorString"});
  look_up(handle, f.driver_version, {"nvmlSystemGetDriverVersion"});
  look_up(handle, f.cuda_driver_version, {"nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion"});

  look_up_enumeration(handle, f);
  look_up(handle, f.uuid, {"nvmlDeviceGetUUID"});
  look_up(handle, f.name, {"nvmlDeviceGetName"});
  look_up(handle, f.minor_number, {"nvmlDeviceGetMinorNumber"});
  look_up(handle, f.pci_info, {"nvmlDeviceGetPciInfo_v3"});
  look_up(handle, f.pci_info_ext, {"nvmlDeviceGetPciInfoExt"});
  look_up(handle, f.compute_capability, {"nvmlDeviceGetCudaComputeCapability"});
  look_up(handle, f.cuda_cores, {"nvmlDeviceGetNumGpuCores"});
  look_up(handle, f.attributes, {"nvmlDeviceGetAttributes_v2"});
  look_up(handle, f.compute_mode, {"nvmlDeviceGetComputeMode"});
  look_up(handle, f.set_compute_mode, {"nvmlDeviceSetComputeMode"});
  look_up(handle, f.persistence_mode, {"nvmlDeviceGetPersistenceMode"});
  look_up(handle, f.fabric_info, {"nvmlDeviceGetGpuFabricInfo"});
  look_up(handle, f.fabric_info_v, {"nvmlDeviceGetGpuFabricInfoV"});

  look_up(handle, f.field_values, {"nvmlDeviceGetFieldValues"});
  look_up(handle, f.memory, {"nvmlDeviceGetMemoryInfo"});
  look_up(handle, f.utilization, {"nvmlDeviceGetUtilizationRates"});
  look_up(handle, f.power_usage, {"nvmlDeviceGetPowerUsage"});
  look_up(handle, f.temperature, {"nvmlDeviceGetTemperature"});
  look_up(handle, f.clock_info, {"nvmlDeviceGetClockInfo"});
  look_up(handle, f.clock_reasons,
          {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"});
  look_up(handle, f.gpm_support, {"nvmlGpmQueryDeviceSupport"});
  look_up(handle, f.gpm_sample_alloc, {"nvmlGpmSampleAlloc"});
  look_up(handle, f.gpm_sample_free, {"nvmlGpmSampleFree"});
  look_up(handle, f.gpm_sample_get, {"nvmlGpmSampleGet"});
  look_up(handle, f.gpm_mig_sample_get, {"nvmlGpmMigSampleGet"});
  look_up(handle, f.gpm_metrics_get, {"nvmlGpmMetricsGet"});
  f.compute_processes_entry = look_up_processes(handle, f.compute_processes, "nvmlDeviceGetComputeRunningProcesses");
  f.mps_processes_entry = look_up_processes(handle, f.mps_processes, "nvmlDeviceGetMPSComputeRunningProcesses");

  look_up(handle, f.common_ancestor, {"nvmlDeviceGetTopologyCommonAncestor"});
  look_up(handle, f.nvlink_state, {"nvmlDeviceGetNvLinkState"});
  look_up(handle, f.nvlink_remote_pci, {"nvmlDeviceGetNvLinkRemotePciInfo_v2"});
  look_up(handle, f.nvlink_remote_type, {"nvmlDeviceGetNvLinkRemoteDeviceType"});

  look_up(handle, f.mig_mode, {"nvmlDeviceGetMigMode"});
  look_up(handle, f.max_mig_devices, {"nvmlDeviceGetMaxMigDeviceCount"});
  look_up(handle, f.mig_device_by_index, {"nvmlDeviceGetMigDeviceHandleByIndex"});
  look_up(handle, f.gpu_instance_id, {"nvmlDeviceGetGpuInstanceId"});
  look_up(handle, f.compute_instance_id, {"nvmlDeviceGetComputeInstanceId"});
  look_up(handle, f.gpu_instance_by_id, {"nvmlDeviceGetGpuInstanceById"});
  look_up(handle, f.gpu_instance_info, {"nvmlGpuInstanceGetInfo"});
  look_up(handle, f.gpu_instance_profile, {"nvmlDeviceGetGpuInstanceProfileInfo"});

  look_up(handle, f.set_mig_mode, {"nvmlDeviceSetMigMode"});
  look_up(handle, f.gpu_instance_placements,
          {"nvmlDeviceGetGpuInstancePossiblePlacements_v2", "nvmlDeviceGetGpuInstancePossiblePlacements"});
  look_up(handle, f.gpu_instances, {"nvmlDeviceGetGpuInstances"});
  look_up(handle, f.create_gpu_instance, {"nvmlDeviceCreateGpuInstanceWithPlacement"});
  look_up(handle, f.destroy_gpu_instance, {"nvmlGpuInstanceDestroy"});
  look_up(handle, f.compute_instance_profile, {"nvmlGpuInstanceGetComputeInstanceProfileInfo"});
  look_up(handle, f.compute_instances, {"nvmlGpuInstanceGetComputeInstances"});
  look_up(handle, f.compute_instance_by_id, {"nvmlGpuInstanceGetComputeInstanceById"});
  look_up(handle, f.compute_instance_info, {"nvmlComputeInstanceGetInfo_v2", "nvmlComputeInstanceGetInfo"});
  look_up(handle, f.create_compute_instance, {"nvmlGpuInstanceCreateComputeInstance"});
  look_up(handle, f.destroy_compute_instance, {"nvmlComputeInstanceDestroy"});

  look_up(handle, f.event_set_create, {"nvmlEventSetCreate"});
  look_up(handle, f.event_set_free, {"nvmlEventSetFree"});
  look_up(handle, f.supported_events, {"nvmlDeviceGetSupportedEventTypes"});
  look_up(handle, f.register_events, {"nvmlDeviceRegisterEvents"});
  if (look_up(handle, f.event_wait, {"nvmlEventSetWait_v2"}) == nullptr) {
    look_up(handle, f.event_wait, {"nvmlEventSetWait"});
    f.event_wait_fills_instances = false;
  }
}

std::string path_of(void* handle, const std::string& asked) {
  link_map* map = nullptr;
  if (::dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr && map->l_name != nullptr &&
      *map->l_name != '\0') {
    return map->l_name;
  }
  return asked;
}

// Encodes a number as path components that do not change the path: "/." for a 1, "/" for a 0.
void append_bits(std::string& path, std::uint64_t number) {
  for (; number != 0; number >>= 1) path += (number & 1) != 0 ? "/." : "/";
  path += "/./";  // end marker
}

// The loader knows a library by each name that it was opened by, and returns the mapped one even if that path now holds
// another driver's file. For a name that it has not seen, it compares the files (device and inode) and maps a different
// one. So the name encodes the file's identity; the inode of a mapped file is not reused. `handle`: what the loader
// returned for `path`; the result replaces it.
void* newest_of(void* handle, const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status{};
  if (!file || ::fstat(file.get(), &status) != 0) return handle;  // a bare name, or deleted
  std::string name = "/proc/self/fd/";
  append_bits(name, status.st_dev);
  append_bits(name, status.st_ino);
  void* newest = ::dlopen((name + std::to_string(file.get())).c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (newest == nullptr) return handle;
  ::dlclose(handle);
  return newest;
}

Kind kind_of(Return code) {
  switch (code) {
    case Return::kInvalidArgument:
      return Kind::kInvalid;
    case Return::kNotSupported:
    case Return::kFunctionNotFound:
    case Return::kArgumentVersionMismatch:
      return Kind::kUnsupported;
    case Return::kNoPermission:
    case Return::kOperatingSystem:
      return Kind::kDenied;
    case Return::kNotFound:
    case Return::kGpuNotFound:
      return Kind::kNotFound;
    case Return::kTimeout:
      return Kind::kTimeout;
    case Return::kVersionMismatch:
    case Return::kInUse:
      return Kind::kConflict;
    default:
      return Kind::kUnavailable;
  }
}

}  // namespace

std::unique_ptr<Library> Library::none() {
  return std::unique_ptr<Library>(new Library);
}

Result<std::unique_ptr<Library>> Library::open(const std::string& driver_root) {
  std::unique_ptr<Library> library(new Library);
  const std::string found = library_in_root(driver_root, kSoname);
  const std::string name = found.empty() ? kSoname : found;
  library->handle_ = ::dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (library->handle_ == nullptr) {
    const char* reason = ::dlerror();
    return fail(Kind::kUnavailable,
                std::string("the NVIDIA driver library cannot be opened (") +
                    (reason != nullptr ? reason : "no reason given") +
                    "); install the driver, mount it into this container, or set the driver root",
                name);
  }
  library->path_ = path_of(library->handle_, name);
  const std::string& file = found.empty() ? library->path_ : found;
  if (void* newest = newest_of(library->handle_, file); newest != library->handle_) {
    library->handle_ = newest;
    library->path_ = file;
  }
  look_up_all(library->handle_, library->functions_);
  const Functions& f = library->functions_;
  if (f.init == nullptr || f.shutdown == nullptr || f.device_count == nullptr || f.device_by_index == nullptr) {
    return fail(Kind::kUnsupported,
                "this file is not a usable NVIDIA management library: it lacks nvmlInit or the device list",
                library->path_);
  }
  const Return code = f.init();
  if (code == Return::kVersionMismatch) {
    return fail(Kind::kConflict,
                "the driver was upgraded under us: library and kernel module have different versions; it is opened as "
                "soon as they are alike again: load the new module, or reboot the node if the old one is still in use",
                library->path_, static_cast<int>(code));
  }
  if (code == Return::kDriverNotLoaded) {
    return fail(Kind::kUnavailable, "the NVIDIA kernel driver is not loaded", library->path_, static_cast<int>(code));
  }
  if (code != Return::kSuccess) {
    return std::unexpected(library->error(code, "the NVIDIA management library does not start", library->path_));
  }
  library->initialised_ = true;
  return library;
}

Library::~Library() {
  // An initialised library stays mapped: it may have state and threads of its own. One that failed to initialise is
  // closed, so that the next attempt opens the file that matches the module loaded at that time.
  if (initialised_) {
    functions_.shutdown();
  } else if (handle_ != nullptr) {
    ::dlclose(handle_);
  }
}

Error Library::error(Return code, std::string doing, std::string where) const {
  const char* text = functions_.error_string != nullptr ? functions_.error_string(code) : nullptr;
  std::string what = std::move(doing) + ": " + (text != nullptr ? text : "no words for it");
  if (code == Return::kGpuIsLost) what += "; reset the GPU or reboot the node";
  if (code == Return::kNoPermission) what += "; run as root in the host's user namespace";
  return Error{kind_of(code), std::move(what), std::move(where), static_cast<int>(code)};
}

}  // namespace tranche::host::nvml
