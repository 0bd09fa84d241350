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

CiProfileInfo info_of(const Call& call, const CiProfile& profile) {
  const GiProfile& gi = call.gi_profile();  // the engines are the GPU instance's, shared by all in it
  return {profile.id,  profile.slices, profile.max_count, profile.sm_count, gi.copy_engines,
          gi.decoders, gi.encoders,    gi.jpegs,          gi.ofas};
}

// Enum values and ids of compute-instance profiles are equal on all products.
Return look_up(const Call& call, u32 enum_value, u32 engine, std::optional<CiProfile>& found) {
  if (enum_value >= kProfileEnumEnd || engine != 0) return kInvalidArgument;
  found = profile_of(call, enum_value);
  return found ? kSuccess : kNotSupported;
}

Return placements(const Call& call, u32 id, Placement* into, u32* count) {
  const auto profile = profile_of(call, id);
  if (!profile) return kInvalidArgument;
  *count = static_cast<u32>(profile->starts.size());
  for (std::size_t i = 0; into != nullptr && i < profile->starts.size(); ++i) {
    into[i] = {profile->starts[i], profile->slices};
  }
  return kSuccess;
}

Return create_compute(std::string_view name, GpuInstance instance, u32 id, const Placement* place,
                      ComputeInstance* into) {
  return answer(name, instance, Accept::kGpuInstance, into, [=](const Call& call, ComputeInstance& out) {
    if (!call.may_change()) return kNoPermission;
    const auto start = place == nullptr ? std::nullopt : std::optional(place->start);
    const auto slot = static_cast<std::size_t>(&call.gi() - call.gpu().instances);
    Return outcome = kUnknown;
    call.node().update_gpu(call.index(), [&](GpuState& state) {
      const auto made = create_ci(state, slot, id, start);
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
    std::optional<CiProfile> found;
    const Return result = look_up(call, profile, engine, found);
    if (result == kSuccess) out = info_of(call, *found);
    return result;
  });
}

NVML Return nvmlGpuInstanceGetComputeInstanceProfileInfoV(GpuInstance instance, u32 profile, u32 engine,
                                                          CiProfileInfoV2* info) {
  return answer(__func__, instance, Accept::kGpuInstance, info, [=](const Call& call, CiProfileInfoV2& out) {
    const bool third = out.version == version_of<CiProfileInfoV3>(3);
    if (!third && out.version != version_of<CiProfileInfoV2>(2)) return kArgumentVersionMismatch;
    std::optional<CiProfile> found;
    if (const Return result = look_up(call, profile, engine, found); result != kSuccess) return result;
    out.info = info_of(call, *found);
    put_text("MIG " + mig_name(call.gi_profile(), found->slices), out.name);
    if (third) reinterpret_cast<CiProfileInfoV3&>(out).capabilities = 0;
    return kSuccess;
  });
}

NVML Return nvmlGpuInstanceGetComputeInstanceRemainingCapacity(GpuInstance instance, u32 id, u32* count) {
  return answer(__func__, instance, Accept::kGpuInstance, count, [id](const Call& call, u32& out) {
    const auto profile = profile_of(call, id);
    if (!profile) return kInvalidArgument;
    out = remaining_cis(call.gpu(), call.gi(), *profile);
    return kSuccess;
  });
}

NVML Return nvmlGpuInstanceGetComputeInstancePossiblePlacements(GpuInstance instance, u32 id, Placement* into,
                                                                u32* count) {
  return answer(__func__, instance, Accept::kGpuInstance, count,
                [=](const Call& call, u32& out) { return placements(call, id, into, &out); });
}

NVML Return nvmlGpuInstanceCreateComputeInstance(GpuInstance instance, u32 id, ComputeInstance* into) {
  return create_compute(__func__, instance, id, nullptr, into);
}
NVML Return nvmlGpuInstanceCreateComputeInstanceWithPlacement(GpuInstance instance, u32 id, const Placement* place,
                                                              ComputeInstance* into) {
  return create_compute(__func__, instance, id, place, into);
}

NVML Return nvmlComputeInstanceDestroy(ComputeInstance instance) {
  const Call call(__func__, instance, Accept::kComputeInstance);
  if (call.refusal() != kSuccess) return call.refusal();
  if (!call.may_change()) return kNoPermission;
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
