// Compute instances inside a GPU instance.
#include <algorithm>
#include <optional>
#include <vector>

#include "session.h"

namespace tranche::sim::nvml {
namespace {

constexpr u32 kProfileEnumEnd = 8;

std::optional<CiProfile> profile_of(const Call& call, u32 id) {
  for (CiProfile& profile : ci_profiles(call.profile().mig, call.gi_profile())) {
    if (profile.id == id) return std::move(profile);
  }
  return std::nullopt;
}

void fill_info(const Call& call, ComputeInstanceInfoV2& out) {
  out = {gpu_handle(call.index()),
         gi_handle(call.index(), call.gi().id),
         call.ci().id,
         call.ci().profile_id,
         {call.ci().start, call.ci().slices}};
}

}  // namespace

NVML Return nvmlGpuInstanceGetComputeInstanceProfileInfo(GpuInstance instance, u32 profile, u32 engine,
                                                         CiProfileInfo* info) {
  return answer(__func__, instance, Accept::kGpuInstance, info, [=](const Call& call, CiProfileInfo& out) {
    if (profile >= kProfileEnumEnd || engine != 0) return kInvalidArgument;
    const auto found = profile_of(call, profile);  // enum values and ids are equal on all products
    if (!found) return kNotSupported;
    const GiProfile& gi = call.gi_profile();  // the engines are the GPU instance's, shared by all in it
    out = {found->id,   found->slices, found->max_count, found->sm_count, gi.copy_engines,
           gi.decoders, gi.encoders,   gi.jpegs,         gi.ofas};
    return kSuccess;
  });
}

NVML Return nvmlGpuInstanceCreateComputeInstance(GpuInstance instance, u32 id, ComputeInstance* into) {
  return answer(__func__, instance, Accept::kGpuInstance, into, [=](const Call& call, ComputeInstance& out) {
    const auto slot = static_cast<std::size_t>(&call.gi() - call.gpu().instances);
    Return outcome = kUnknown;
    call.node().update_gpu(call.index(), [&](GpuState& state) {
      const auto made = create_ci(state, slot, id, std::nullopt);
      outcome = kSuccess;
      if (made) {
        out = ci_handle(call.index(), state.instances[slot].id, state.instances[slot].compute[*made].id);
      } else {
        outcome = made.error() == MigFault::kNoRoom ? kInsufficientResources : kInvalidArgument;
      }
    });
    if (outcome == kSuccess) raise_mig_change(call);
    return outcome;
  });
}

NVML Return nvmlComputeInstanceDestroy(ComputeInstance instance) {
  const Call call(__func__, instance, Accept::kComputeInstance);
  if (call.refusal() != kSuccess) return call.refusal();
  if (call.lies()) return lie(call);
  for (const ProcessRow& row : call.node().processes(call.index())) {
    if (row.gpu_instance == call.gi().id && row.compute_instance == call.ci().id) return kInUse;
  }
  const auto gi = static_cast<std::size_t>(&call.gi() - call.gpu().instances);
  const auto ci = static_cast<std::size_t>(&call.ci() - call.gi().compute);
  call.node().update_gpu(call.index(), [=](GpuState& state) { state.instances[gi].compute[ci].used = 0; });
  raise_mig_change(call);
  return kSuccess;
}

NVML Return nvmlGpuInstanceGetComputeInstances(GpuInstance instance, u32 id, ComputeInstance* instances, u32* count) {
  return answer(__func__, instance, Accept::kGpuInstance, count, [=](const Call& call, u32& out) {
    if (instances == nullptr || !profile_of(call, id)) return kInvalidArgument;
    out = 0;
    for (const auto& ci : call.gi().compute) {
      if (ci.used != 0 && ci.profile_id == id) instances[out++] = ci_handle(call.index(), call.gi().id, ci.id);
    }
    return kSuccess;
  });
}

NVML Return nvmlGpuInstanceGetComputeInstanceById(GpuInstance instance, u32 id, ComputeInstance* into) {
  return answer(__func__, instance, Accept::kGpuInstance, into, [id](const Call& call, ComputeInstance& out) {
    if (find_ci(call.gi(), id) == nullptr) return kNotFound;
    out = ci_handle(call.index(), call.gi().id, id);
    return kSuccess;
  });
}

NVML Return nvmlComputeInstanceGetInfo_v2(ComputeInstance instance, ComputeInstanceInfoV2* info) {
  return answer(__func__, instance, Accept::kComputeInstance, info, fill_info);
}
NVML Return nvmlComputeInstanceGetInfo(ComputeInstance instance, ComputeInstanceInfoV1* info) {
  return answer(__func__, instance, Accept::kComputeInstance, info, [](const Call& call, ComputeInstanceInfoV1& out) {
    ComputeInstanceInfoV2 whole;
    fill_info(call, whole);
    out = {whole.device, whole.gpu_instance, whole.id, whole.profile_id};
  });
}

}  // namespace tranche::sim::nvml
