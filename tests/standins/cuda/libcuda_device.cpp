// Start, devices and contexts of the libcuda.so.1 stand-in.
#include <cstdio>

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
  const std::string_view text = error_name(error);
  *name = text.empty() ? nullptr : text.data();  // a literal: it ends with a NUL
  return code(text.empty() ? CudaError::kInvalidValue : CudaError::kSuccess);
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
  if (error != CudaError::kSuccess) return code(error);
  std::snprintf(name, static_cast<std::size_t>(length), "%s", properties_of(state, device).name.c_str());
  return 0;
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

int cuDeviceGetAttribute(int* value, int attribute, int device) {
  auto& state = driver_state();
  const std::lock_guard lock(state.mutex);
  const CudaError error = check_device(state, device);
  if (error != CudaError::kSuccess) return code(error);
  const GpuProperties& properties = properties_of(state, device);
  constexpr int kMultiprocessors = 16, kCapabilityMajor = 75, kCapabilityMinor = 76;
  *value = attribute == kMultiprocessors   ? static_cast<int>(state.process->attribute_sms(device))
           : attribute == kCapabilityMajor ? properties.cc_major
           : attribute == kCapabilityMinor ? properties.cc_minor
                                           : 0;
  return 0;
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
  if (const CudaError error = state.process->open_context(device); error != CudaError::kSuccess) return code(error);
  *context = current_context() = new SimContext{device};
  state.contexts.insert(*context);
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
