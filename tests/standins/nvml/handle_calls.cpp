// From an index, a UUID or a bus address to a handle.
#include <algorithm>
#include <cctype>
#include <cstring>
#include <optional>
#include <string>

#include "base/text.h"
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

// "MIG-GPU-<uuid>/<gi>/<ci>", the format of drivers before 465.
const Handle* old_mig_name(std::string_view text, int gpu, const GpuState& state) {
  const std::string head = "MIG-" + state.uuid.str() + "/";
  if (!text.starts_with(head)) return nullptr;
  const auto ids = split(text.substr(head.size()), '/');
  if (ids.size() != 2) return nullptr;
  const auto gi = parse_unsigned(ids[0]);
  const auto ci = parse_unsigned(ids[1]);
  if (!gi || !ci || *gi >= kMaxGpuInstances || *ci >= kMaxComputeInstances) return nullptr;
  return mig_handle(gpu, static_cast<u32>(*gi), static_cast<u32>(*ci));
}

const Handle* by_name(std::string_view text, int gpu, const GpuState& state) {
  if (state.uuid.view() == text) return gpu_handle(gpu);
  if (!text.starts_with("MIG-")) return nullptr;
  for (const MigDevice& device : mig_devices(state)) {
    const auto* ci = find_ci(*find_gi(state, device.gpu_instance), device.compute_instance);
    if (ci->uuid.view() == text) return mig_handle(gpu, device.gpu_instance, device.compute_instance);
  }
  return old_mig_name(text, gpu, state);
}

Return by_uuid(std::string_view name, std::string_view uuid, Device* device) {
  const Call call(name);
  if (call.refusal() != kSuccess) return call.refusal();
  const Handle* found = nullptr;
  for (const int i : session_gpus()) {
    const GpuState state = call.node().gpu_state(i);
    if (state.lost != 0 || state.unplugged != 0) return kGpuIsLost;  // any lost GPU makes the search fail for all
    if (found == nullptr) found = by_name(uuid, i, state);
  }
  if (found == nullptr) return kNotFound;
  const Call check(name, found, Accept::kGpuOrMig);
  if (check.refusal() != kSuccess) return check.refusal() == kInvalidArgument ? kNotFound : check.refusal();
  *device = found;
  return kSuccess;
}

struct BusAddress {
  u64 domain = 0, bus = 0, device = 0, function = 0;
};

// "dom:bus:dev.fn", "dom:bus:dev", "bus:dev.fn"; any number of hexadecimal digits.
std::optional<BusAddress> parse_bus_address(std::string_view text) {
  BusAddress address;
  if (const auto dot = text.find('.'); dot != std::string_view::npos) {
    const auto function = parse_unsigned(text.substr(dot + 1), 16);
    if (!function) return std::nullopt;
    address.function = *function;
    text = text.substr(0, dot);
  }
  std::vector<u64> numbers;
  for (const auto part : split(text, ':')) {
    const auto number = parse_unsigned(part, 16);
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  if (numbers.size() == 2) numbers.insert(numbers.begin(), 0);
  if (numbers.size() != 3) return std::nullopt;
  address.domain = numbers[0];
  address.bus = numbers[1];
  address.device = numbers[2];
  return address;
}

Return by_bus(std::string_view name, const char* text, Device* device) {
  const Call any(name);
  if (any.refusal() != kSuccess) return any.refusal();
  if (text == nullptr || device == nullptr) return kInvalidArgument;
  const auto address = parse_bus_address(text);
  if (!address) return kInvalidArgument;
  for (const int i : session_gpus()) {
    const TopologySlot slot = any.node().gpu_state(i).slot;
    if (slot.domain != address->domain || slot.bus != address->bus || slot.device != address->device) continue;
    if (address->function == 0) return of_gpu(name, i, device);
  }
  return kNotFound;
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
NVML Return nvmlDeviceGetHandleByPciBusId(const char* id, Device* device) {
  return by_bus(__func__, id, device);
}
NVML Return nvmlDeviceGetHandleByPciBusId_v2(const char* id, Device* device) {
  return by_bus(__func__, id, device);
}

NVML Return nvmlDeviceGetHandleByUUID(const char* uuid, Device* device) {
  if (const Call call("nvmlDeviceGetHandleByUUID"); call.refusal() != kSuccess) return call.refusal();
  if (uuid == nullptr || device == nullptr) return kInvalidArgument;
  return by_uuid(__func__, uuid, device);
}

NVML Return nvmlDeviceGetHandleByUUIDV(const UuidV1* uuid, Device* device) {
  if (const Call call("nvmlDeviceGetHandleByUUIDV"); call.refusal() != kSuccess) return call.refusal();
  if (uuid == nullptr || device == nullptr) return kInvalidArgument;
  if (uuid->version != version_of<UuidV1>(1)) return kArgumentVersionMismatch;
  constexpr u32 kAscii = 1, kBinary = 2;
  if (uuid->type == kAscii) {
    const auto* text = reinterpret_cast<const char*>(uuid->value);
    return by_uuid(__func__, {text, strnlen(text, sizeof(uuid->value))}, device);
  }
  if (uuid->type != kBinary) return kInvalidArgument;
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += "0123456789abcdef"[uuid->value[i] >> 4];
    text += "0123456789abcdef"[uuid->value[i] & 15];
  }
  return by_uuid(__func__, text, device);
}

}  // namespace tranche::sim::nvml
