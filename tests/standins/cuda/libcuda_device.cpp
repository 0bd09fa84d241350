// Start, devices and contexts of the libcuda.so.1 stand-in.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "standins/cuda/driver_state.h"

using namespace tranche::sim;

namespace {

// kSuccess for a valid device of an initialised driver, otherwise the error.
CudaError check_device(const DriverState& state, int device) {
  if (!state.process) return CudaError::kNotInitialized;
  return device >= 0 && device < static_cast<int>(state.process->devices().size()) ? CudaError::kSuccess
                                                                                   : CudaError::kInvalidDevice;
}

const GpuProperties& properties_of(const DriverState& state, int device) {
  return state.process->devices()[static_cast<std::size_t>(device)].properties;
}

int copy_text(const std::string& text, char* to, int length) {
  if (to == nullptr || length <= 0) return code(CudaError::kInvalidValue);
  std::snprintf(to, static_cast<std::size_t>(length), "%s", text.c_str());
  return 0;
}

int give_text(std::string_view text, const char** out) {
  if (out == nullptr) return code(CudaError::kInvalidValue);
  *out = text.empty() ? nullptr : text.data();  // literals, so they end with a NUL
  return code(text.empty() ? CudaError::kInvalidValue : CudaError::kSuccess);
}

// Numbers of CUdevice_attribute.
int attribute_value(const DriverState& state, int attribute, int device) {
  const auto& properties = properties_of(state, device);
  unsigned domain = 0, bus = 0, slot = 0;
  std::sscanf(properties.pci_bus_id.c_str(), "%x:%x:%x", &domain, &bus, &slot);
  switch (attribute) {
    case 1:  // threads per block
    case 2:  // block x
    case 3:
      return 1024;
    case 4:
      return 64;
    case 5:
      return 2147483647;
    case 6:
    case 7:
      return 65535;
    case 8:  // shared memory per block
      return 49152;
    case 10:  // warp
      return 32;
    case 13:  // clock in kHz
      return 1980000;
    case 16:
      return static_cast<int>(state.process->attribute_sms(device));
    case 20:
      return state.process->node().compute_mode(state.process->devices()[static_cast<std::size_t>(device)].node_index);
    case 33:
      return static_cast<int>(bus);
    case 34:
      return static_cast<int>(slot);
    case 39:  // threads per SM
      return 2048;
    case 41:  // unified addressing
      return 1;
    case 50:
      return static_cast<int>(domain);
    case 75:
      return properties.cc_major;
    case 76:
      return properties.cc_minor;
    default:
      return 0;
  }
}

int open_context(DriverState& state, int device, SimContext* context, CudaContextHandle* out) {
  const CudaError error = state.process->open_context(device);
  if (error != CudaError::kSuccess) return code(error);
  context->device = device;
  *out = context;
  return 0;
}

bool known(const DriverState& state, const SimContext* context) {
  if (state.contexts.contains(const_cast<SimContext*>(context))) return true;
  return std::ranges::any_of(state.primaries, [&](const auto& one) { return one.second.get() == context; });
}

}  // namespace

int cuInit(unsigned flags) {
  if (flags != 0) return code(CudaError::kInvalidValue);
  auto& state = driver_state();
  const std::lock_guard lock(state.mutex);
  if (state.process) return 0;
  CudaError error = CudaError::kSuccess;
  state.process = CudaProcess::start(read_cuda_environment(), &error);
  return code(error);
}

int cuDriverGetVersion(int* version) {
  if (version == nullptr) return code(CudaError::kInvalidValue);
  const auto node = Node::open();
  *version = node ? (*node)->cuda_version() : 0;
  return 0;
}

int cuGetErrorName(int error, const char** name) {
  return give_text(error_name(error), name);
}
int cuGetErrorString(int error, const char** text) {
  return give_text(error_text(error), text);
}

int cuDeviceGetCount(int* count) {
  auto& state = driver_state();
  const std::lock_guard lock(state.mutex);
  if (!state.process) return code(CudaError::kNotInitialized);
  *count = static_cast<int>(state.process->devices().size());
  return 0;
}

int cuDeviceGet(int* device, int ordinal) {
  auto& state = driver_state();
  const std::lock_guard lock(state.mutex);
  const CudaError error = check_device(state, ordinal);
  if (error == CudaError::kSuccess) *device = ordinal;
  return code(error);
}

int cuDeviceGetName(char* name, int length, int device) {
  auto& state = driver_state();
  const std::lock_guard lock(state.mutex);
  const CudaError error = check_device(state, device);
  return error == CudaError::kSuccess ? copy_text(properties_of(state, device).name, name, length) : code(error);
}

int cuDeviceGetPCIBusId(char* text, int length, int device) {
  auto& state = driver_state();
  const std::lock_guard lock(state.mutex);
  const CudaError error = check_device(state, device);
  return error == CudaError::kSuccess ? copy_text(properties_of(state, device).pci_bus_id, text, length) : code(error);
}

int cuDeviceGetUuid_v2(CudaUuidBytes* uuid, int device) {
  auto& state = driver_state();
  const std::lock_guard lock(state.mutex);
  const CudaError error = check_device(state, device);
  if (error != CudaError::kSuccess) return code(error);
  std::string digits;
  for (const char c : properties_of(state, device).uuid.substr(4)) {
    if (c != '-') digits += c;
  }
  for (std::size_t i = 0; i < 16; ++i) {
    unsigned byte = 0;
    if (2 * i + 2 > digits.size() || std::sscanf(digits.substr(2 * i, 2).c_str(), "%2x", &byte) != 1) byte = 0;
    uuid->bytes[i] = static_cast<unsigned char>(byte);
  }
  return 0;
}
int cuDeviceGetUuid(CudaUuidBytes* uuid, int device) {
  return cuDeviceGetUuid_v2(uuid, device);
}

int cuDeviceGetAttribute(int* value, int attribute, int device) {
  auto& state = driver_state();
  const std::lock_guard lock(state.mutex);
  const CudaError error = check_device(state, device);
  if (error == CudaError::kSuccess) *value = attribute_value(state, attribute, device);
  return code(error);
}

int cuDeviceTotalMem_v2(std::size_t* bytes, int device) {
  auto& state = driver_state();
  const std::lock_guard lock(state.mutex);
  const CudaError error = check_device(state, device);
  if (error == CudaError::kSuccess) {
    *bytes = properties_of(state, device).memory_total - properties_of(state, device).memory_reserved;
  }
  return code(error);
}

int cuCtxCreate_v2(CudaContextHandle* context, unsigned /*flags*/, int device) {
  auto& state = driver_state();
  const std::lock_guard lock(state.mutex);
  if (const CudaError error = check_device(state, device); error != CudaError::kSuccess) return code(error);
  auto made = std::make_unique<SimContext>();
  const int result = open_context(state, device, made.get(), context);
  if (result != 0) return result;
  state.contexts.insert(made.get());
  current_context() = made.release();
  return 0;
}

int cuCtxDestroy_v2(CudaContextHandle context) {
  auto& state = driver_state();
  const std::lock_guard lock(state.mutex);
  if (state.contexts.erase(context) == 0) return code(CudaError::kInvalidContext);
  const CudaError error = state.process->close_context(context->device);
  if (current_context() == context) current_context() = nullptr;
  delete context;
  return code(error);
}

int cuCtxSetCurrent(CudaContextHandle context) {
  auto& state = driver_state();
  const std::lock_guard lock(state.mutex);
  if (context != nullptr && !known(state, context)) return code(CudaError::kInvalidContext);
  current_context() = context;
  return 0;
}
int cuCtxPushCurrent_v2(CudaContextHandle context) {
  return cuCtxSetCurrent(context);
}

int cuCtxGetCurrent(CudaContextHandle* context) {
  const std::lock_guard lock(driver_state().mutex);
  *context = current_context();
  return 0;
}

int cuCtxPopCurrent_v2(CudaContextHandle* context) {
  const std::lock_guard lock(driver_state().mutex);
  if (context != nullptr) *context = current_context();
  current_context() = nullptr;
  return 0;
}

int cuCtxGetDevice(int* device) {
  auto& state = driver_state();
  const std::lock_guard lock(state.mutex);
  return code(enter(state, device));
}

int cuCtxSynchronize() {
  auto& state = driver_state();
  int device = 0;
  {
    const std::lock_guard lock(state.mutex);
    if (const CudaError error = enter(state, &device); error != CudaError::kSuccess) return code(error);
  }
  return code(state.process->synchronize(device));
}

int cuDevicePrimaryCtxRetain(CudaContextHandle* context, int device) {
  auto& state = driver_state();
  const std::lock_guard lock(state.mutex);
  if (const CudaError error = check_device(state, device); error != CudaError::kSuccess) return code(error);
  auto& primary = state.primaries[device];
  if (!primary) primary = std::make_unique<SimContext>();
  primary->primary = true;
  if (primary->retained == 0) {
    if (const int result = open_context(state, device, primary.get(), context); result != 0) return result;
  }
  ++primary->retained;
  *context = primary.get();
  return 0;
}

int cuDevicePrimaryCtxRelease_v2(int device) {
  auto& state = driver_state();
  const std::lock_guard lock(state.mutex);
  const auto found = state.primaries.find(device);
  if (found == state.primaries.end() || found->second->retained == 0) return code(CudaError::kInvalidContext);
  if (--found->second->retained > 0) return 0;
  return code(state.process->close_context(device));
}

int cuGetProcAddress_v2(const char* symbol, void** function, int /*version*/, std::uint64_t /*flags*/, int* status) {
  struct Entry {
    const char* name;
    void* address;
  };
#define ENTRY(name, exported) {#name, reinterpret_cast<void*>(&exported)}
  static const Entry entries[] = {ENTRY(cuInit, cuInit),
                                  ENTRY(cuDriverGetVersion, cuDriverGetVersion),
                                  ENTRY(cuGetErrorName, cuGetErrorName),
                                  ENTRY(cuGetErrorString, cuGetErrorString),
                                  ENTRY(cuDeviceGetCount, cuDeviceGetCount),
                                  ENTRY(cuDeviceGet, cuDeviceGet),
                                  ENTRY(cuDeviceGetName, cuDeviceGetName),
                                  ENTRY(cuDeviceGetUuid, cuDeviceGetUuid_v2),
                                  ENTRY(cuDeviceGetPCIBusId, cuDeviceGetPCIBusId),
                                  ENTRY(cuDeviceGetAttribute, cuDeviceGetAttribute),
                                  ENTRY(cuDeviceTotalMem, cuDeviceTotalMem_v2),
                                  ENTRY(cuCtxCreate, cuCtxCreate_v2),
                                  ENTRY(cuCtxDestroy, cuCtxDestroy_v2),
                                  ENTRY(cuCtxSetCurrent, cuCtxSetCurrent),
                                  ENTRY(cuCtxGetCurrent, cuCtxGetCurrent),
                                  ENTRY(cuCtxPushCurrent, cuCtxPushCurrent_v2),
                                  ENTRY(cuCtxPopCurrent, cuCtxPopCurrent_v2),
                                  ENTRY(cuCtxGetDevice, cuCtxGetDevice),
                                  ENTRY(cuCtxSynchronize, cuCtxSynchronize),
                                  ENTRY(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain),
                                  ENTRY(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2),
                                  ENTRY(cuMemGetInfo, cuMemGetInfo_v2),
                                  ENTRY(cuMemAlloc, cuMemAlloc_v2),
                                  ENTRY(cuMemFree, cuMemFree_v2),
                                  ENTRY(cuMemcpyHtoD, cuMemcpyHtoD_v2),
                                  ENTRY(cuMemcpyDtoH, cuMemcpyDtoH_v2),
                                  ENTRY(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2),
                                  ENTRY(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2),
                                  ENTRY(cuMemsetD8, cuMemsetD8_v2),
                                  ENTRY(cuMemsetD32, cuMemsetD32_v2),
                                  ENTRY(cuModuleLoadData, cuModuleLoadData),
                                  ENTRY(cuModuleLoadDataEx, cuModuleLoadDataEx),
                                  ENTRY(cuModuleGetFunction, cuModuleGetFunction),
                                  ENTRY(cuModuleUnload, cuModuleUnload),
                                  ENTRY(cuLaunchKernel, cuLaunchKernel),
                                  ENTRY(cuStreamCreate, cuStreamCreate),
                                  ENTRY(cuStreamSynchronize, cuStreamSynchronize),
                                  ENTRY(cuStreamQuery, cuStreamQuery),
                                  ENTRY(cuStreamDestroy, cuStreamDestroy_v2),
                                  ENTRY(cuEventCreate, cuEventCreate),
                                  ENTRY(cuEventRecord, cuEventRecord),
                                  ENTRY(cuEventSynchronize, cuEventSynchronize),
                                  ENTRY(cuEventElapsedTime, cuEventElapsedTime),
                                  ENTRY(cuEventDestroy, cuEventDestroy_v2),
                                  ENTRY(cuGetProcAddress, cuGetProcAddress_v2)};
#undef ENTRY
  if (symbol == nullptr || function == nullptr) return code(CudaError::kInvalidValue);
  const auto found =
      std::ranges::find_if(entries, [&](const Entry& one) { return std::strcmp(one.name, symbol) == 0; });
  *function = found == std::end(entries) ? nullptr : found->address;
  if (status != nullptr) *status = *function == nullptr ? 1 : 0;  // CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND
  return code(*function == nullptr ? CudaError::kNotFound : CudaError::kSuccess);
}
