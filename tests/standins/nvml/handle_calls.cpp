// From an index, a UUID or a bus address to a handle.
#include <algorithm>

#include "session.h"

namespace tranche::sim::nvml {
namespace {

Return of_gpu(std::string_view name, int gpu, Device* device) {
  const Handle* handle = gpu_handle(gpu);
  const Call call(name, handle, Accept::kGpu);
  if (call.refusal() != kSuccess) return call.refusal();
  *device = handle;
  return kSuccess;
}

Return by_index(std::string_view name, u32 index, Device* device) {
  const Call any(name);
  if (any.refusal() != kSuccess) return any.refusal();
  const auto gpus = session_gpus();
  if (device == nullptr || index >= gpus.size()) return kInvalidArgument;
  return of_gpu(name, gpus[index], device);
}

Return count_gpus(std::string_view name, u32* count) {
  const Call call(name);
  if (call.refusal() != kSuccess) return call.refusal();
  if (count == nullptr) return kInvalidArgument;
  *count = static_cast<u32>(session_gpus().size());  // a lost GPU still counts
  return kSuccess;
}

// A whole UUID, or a bus address in the driver's or the kernel's format.
Return by_name(std::string_view name, const char* text, Device* device) {
  const Call any(name);
  if (any.refusal() != kSuccess) return any.refusal();
  if (text == nullptr || device == nullptr) return kInvalidArgument;
  const int gpu = any.node().find_gpu(text);
  return std::ranges::count(session_gpus(), gpu) > 0 ? of_gpu(name, gpu, device) : kNotFound;
}

}  // namespace

NVML Return nvmlDeviceGetCount(u32* count) {
  return count_gpus(__func__, count);
}
NVML Return nvmlDeviceGetCount_v2(u32* count) {
  return count_gpus(__func__, count);
}
NVML Return nvmlDeviceGetHandleByIndex(u32 index, Device* device) {
  return by_index(__func__, index, device);
}
NVML Return nvmlDeviceGetHandleByIndex_v2(u32 index, Device* device) {
  return by_index(__func__, index, device);
}
NVML Return nvmlDeviceGetHandleByPciBusId_v2(const char* id, Device* device) {
  return by_name(__func__, id, device);
}
NVML Return nvmlDeviceGetHandleByUUID(const char* uuid, Device* device) {
  return by_name(__func__, uuid, device);
}

}  // namespace tranche::sim::nvml
