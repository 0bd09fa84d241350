// MIG mode, and MIG devices as the handles that programs use.
#include <algorithm>

#include "session.h"

namespace tranche::sim::nvml {
namespace {

u32 most_devices(const GpuProfile& profile) {
  u32 most = 0;
  for (u32 i = 0; i < profile.mig.profile_count; ++i) most = std::max(most, profile.mig.profiles[i].max_count);
  return most;
}

template <class Out>
void fill_attributes(const Call& call, Out& out) {
  const GiProfile& gi = call.gi_profile();
  out = {};
  out.sms = call.ci().sm_count;
  out.copy_engines = gi.copy_engines;
  out.decoders = gi.decoders;
  out.encoders = gi.encoders;
  out.jpegs = gi.jpegs;
  out.ofas = gi.ofas;
  if constexpr (requires { out.memory_mib; }) {
    out.gpu_instance_slices = gi.slices;
    out.compute_instance_slices = call.ci().slices;
    out.memory_mib = gi.memory_mib;
  }
}

// The result of a mode change; kSuccess if it takes effect immediately.
Return switch_outcome(const Call& call, u32 mode) {
  const GpuState& gpu = call.gpu();
  if (mode == gpu.mig_mode) return kSuccess;
  const bool cut = std::ranges::any_of(gpu.instances, [](const auto& gi) { return gi.used != 0; });
  if (cut || !call.node().processes(call.index()).empty()) return kInUse;
  return gpu.profile.mig.needs_reset != 0 ? kResetRequired : kSuccess;
}

}  // namespace

NVML Return nvmlDeviceGetMigMode(Device device, u32* current, u32* pending) {
  return answer(__func__, device, Accept::kGpu, current, [pending](const Call& call, u32& out) {
    if (pending == nullptr) return kInvalidArgument;
    if (call.profile().mig.memory_slices == 0) return kNotSupported;
    out = call.gpu().mig_mode;
    *pending = call.gpu().mig_pending;
    return kSuccess;
  });
}

NVML Return nvmlDeviceSetMigMode(Device device, u32 mode, Return* activation) {
  return answer(__func__, device, Accept::kGpu, activation, [mode](const Call& call, Return& out) {
    if (mode > 1) return kInvalidArgument;
    if (call.profile().mig.memory_slices == 0) return kNotSupported;
    if (!call.may_change()) return kNoPermission;
    if (call.lies()) {
      out = kSuccess;
      return lie(call);
    }
    out = switch_outcome(call, mode);
    if (out == kInUse) return kSuccess;
    const bool now = out == kSuccess;
    call.node().update_gpu(call.index(), [mode, now](GpuState& state) {
      state.mig_pending = mode;
      if (now) state.mig_mode = mode;
    });
    raise_mig_change(call);
    return kSuccess;
  });
}

NVML Return nvmlDeviceGetMaxMigDeviceCount(Device device, u32* count) {
  return answer(__func__, device, Accept::kGpu, count,
                [](const Call& call, u32& out) { out = call.mig_on() ? most_devices(call.profile()) : 0; });
}

NVML Return nvmlDeviceGetMigDeviceHandleByIndex(Device device, u32 index, Device* mig) {
  return answer(__func__, device, Accept::kGpu, mig, [index](const Call& call, Device& out) {
    if (call.profile().mig.memory_slices == 0) return kNotSupported;
    if (index >= most_devices(call.profile())) return kInvalidArgument;
    for (const MigDevice& found : mig_devices(call.gpu())) {
      if (found.index != index) continue;
      out = mig_handle(call.index(), found.gpu_instance, found.compute_instance);
      return kSuccess;
    }
    return kNotFound;
  });
}

NVML Return nvmlDeviceIsMigDeviceHandle(Device device, u32* is_mig) {
  return answer(__func__, device, Accept::kGpuOrMig, is_mig,
                [](const Call& call, u32& out) { out = call.is_mig() ? 1 : 0; });
}

NVML Return nvmlDeviceGetDeviceHandleFromMigDeviceHandle(Device mig, Device* device) {
  return answer(__func__, mig, Accept::kMig, device,
                [](const Call& call, Device& out) { out = gpu_handle(call.index()); });
}

NVML Return nvmlDeviceGetGpuInstanceId(Device device, u32* id) {
  return answer(__func__, device, Accept::kMig, id, [](const Call& call, u32& out) { out = call.gi().id; });
}

NVML Return nvmlDeviceGetComputeInstanceId(Device device, u32* id) {
  return answer(__func__, device, Accept::kMig, id, [](const Call& call, u32& out) { out = call.ci().id; });
}

NVML Return nvmlDeviceGetAttributes_v2(Device device, AttributesV2* attributes) {
  return answer(__func__, device, Accept::kMig, attributes,
                [](const Call& call, AttributesV2& out) { fill_attributes(call, out); });
}
NVML Return nvmlDeviceGetAttributes(Device device, AttributesV1* attributes) {
  return answer(__func__, device, Accept::kMig, attributes,
                [](const Call& call, AttributesV1& out) { fill_attributes(call, out); });
}

}  // namespace tranche::sim::nvml
