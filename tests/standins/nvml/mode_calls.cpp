// Settings: compute mode, persistence, power limit, ECC.
#include "session.h"

namespace tranche::sim::nvml {
namespace {

constexpr u32 kExclusiveThread = 1, kExclusiveProcess = 3;

Return set_mig_compute_mode(const Call& call, i32 mode) {
  const u32 gi_id = call.gi().id;
  const u32 ci_id = call.ci().id;
  call.node().update_gpu(call.index(), [=](GpuState& state) {
    for (auto& gi : state.instances) {
      for (auto& ci : gi.compute) {
        if (gi.used != 0 && gi.id == gi_id && ci.used != 0 && ci.id == ci_id) ci.compute_mode = mode;
      }
    }
  });
  return kSuccess;
}

Return power_limit(std::string_view name, Device device, u32* limit, u32 GpuProfile::* member) {
  return answer(name, device, Accept::kGpu, limit,
                [member](const Call& call, u32& out) { out = call.profile().*member; });
}

}  // namespace

NVML Return nvmlDeviceGetComputeMode(Device device, u32* mode) {
  return answer(__func__, device, Accept::kGpuOrMig, mode, [](const Call& call, u32& out) {
    if (call.mig_on() && !call.is_mig()) return kNotSupported;  // every MIG device has its own mode
    out = static_cast<u32>(call.is_mig() ? call.ci().compute_mode : call.gpu().compute_mode);
    return kSuccess;
  });
}

NVML Return nvmlDeviceSetComputeMode(Device device, u32 mode) {
  const Call call(__func__, device, Accept::kGpuOrMig);
  if (call.refusal() != kSuccess) return call.refusal();
  if (mode > kExclusiveProcess) return kInvalidArgument;
  if (mode == kExclusiveThread || (call.mig_on() && !call.is_mig())) return kNotSupported;
  if (!call.may_change()) return kNoPermission;
  if (call.is_mig()) return set_mig_compute_mode(call, static_cast<i32>(mode));
  call.node().set_compute_mode(call.index(), static_cast<int>(mode));
  return kSuccess;
}

NVML Return nvmlDeviceGetPersistenceMode(Device device, u32* mode) {
  return answer(__func__, device, Accept::kGpu, mode, [](const Call& call, u32& out) { out = call.gpu().persistence; });
}

NVML Return nvmlDeviceSetPersistenceMode(Device device, u32 mode) {
  const Call call(__func__, device, Accept::kGpu);
  if (call.refusal() != kSuccess) return call.refusal();
  if (mode > 1) return kInvalidArgument;
  if (!call.may_change()) return kNoPermission;
  call.node().update_gpu(call.index(), [mode](GpuState& state) { state.persistence = mode; });
  return kSuccess;
}

NVML Return nvmlDeviceGetPowerManagementMode(Device device, u32* mode) {
  return answer(__func__, device, Accept::kGpu, mode, [](const Call&, u32& out) { out = 1; });
}
NVML Return nvmlDeviceGetPowerManagementDefaultLimit(Device device, u32* limit) {
  return power_limit(__func__, device, limit, &GpuProfile::power_default_mw);
}
NVML Return nvmlDeviceGetPowerManagementLimit(Device device, u32* limit) {
  return answer(__func__, device, Accept::kGpu, limit,
                [](const Call& call, u32& out) { out = call.gpu().power_limit_mw; });
}
NVML Return nvmlDeviceGetEnforcedPowerLimit(Device device, u32* limit) {
  return answer(__func__, device, Accept::kGpu, limit,
                [](const Call& call, u32& out) { out = call.gpu().power_limit_mw; });
}
NVML Return nvmlDeviceGetPowerManagementLimitConstraints(Device device, u32* least, u32* most) {
  return answer(__func__, device, Accept::kGpu, least, [most](const Call& call, u32& out) {
    if (most == nullptr) return kInvalidArgument;
    out = call.profile().power_min_mw;
    *most = call.profile().power_max_mw;
    return kSuccess;
  });
}

NVML Return nvmlDeviceSetPowerManagementLimit(Device device, u32 limit) {
  const Call call(__func__, device, Accept::kGpu);
  if (call.refusal() != kSuccess) return call.refusal();
  if (limit < call.profile().power_min_mw || limit > call.profile().power_max_mw) return kInvalidArgument;
  if (!call.may_change()) return kNoPermission;
  call.node().update_gpu(call.index(), [limit](GpuState& state) { state.power_limit_mw = limit; });
  return kSuccess;
}

NVML Return nvmlDeviceGetEccMode(Device device, u32* current, u32* pending) {
  return answer(__func__, device, Accept::kGpu, current, [pending](const Call& call, u32& out) {
    if (pending == nullptr) return kInvalidArgument;
    if (call.profile().ecc == 0) return kNotSupported;
    out = *pending = 1;
    return kSuccess;
  });
}
NVML Return nvmlDeviceGetDefaultEccMode(Device device, u32* mode) {
  return answer(__func__, device, Accept::kGpu, mode, [](const Call& call, u32& out) {
    out = 1;
    return call.profile().ecc == 0 ? kNotSupported : kSuccess;
  });
}

}  // namespace tranche::sim::nvml
