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

}  // namespace tranche::sim::nvml
