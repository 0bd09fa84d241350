// GPU instances: their profiles and placements, creation and destruction.
#include <algorithm>
#include <vector>

#include "session.h"

namespace tranche::sim::nvml {
namespace {

// The number of profile enum values in the driver's own header; the first one beyond ends a caller's loop.
u32 profile_enum_end(u32 driver_major) {
  struct Step {
    u32 driver, count;
  };
  constexpr Step kSteps[] = {{595, 18}, {575, 17}, {570, 13}, {525, 10}, {470, 8}, {460, 7}, {455, 6}};
  for (const Step step : kSteps) {
    if (driver_major >= step.driver) return step.count;
  }
  return 5;
}

Return placements(std::string_view name, Device device, u32 id, Placement* into, u32* count, bool asks_with_null) {
  return answer(name, device, Accept::kGpu, count, [=](const Call& call, u32& out) {
    const GiProfile* profile = gi_profile_by_id(call.profile(), id);
    if (profile == nullptr) return call.profile().mig.memory_slices == 0 ? kNotSupported : kInvalidArgument;
    if (into == nullptr && !asks_with_null) return kInvalidArgument;
    out = profile->placement_count;
    for (u32 i = 0; into != nullptr && i < profile->placement_count; ++i) {
      into[i] = {profile->placement_starts[i], profile->placement_size};
    }
    return kSuccess;
  });
}

Return to_return(MigFault fault) {
  switch (fault) {
    case MigFault::kNotMigMode:
      return kNotSupported;
    case MigFault::kNoSuchProfile:
      return kInvalidArgument;
    case MigFault::kNoRoom:
      return kInsufficientResources;
    case MigFault::kInUse:
      return kInUse;
    case MigFault::kBadPlacement:
      return kInvalidArgument;
  }
  return kUnknown;
}

Return create(std::string_view name, Device device, u32 id, const Placement* place, GpuInstance* instance) {
  return answer(name, device, Accept::kGpu, instance, [=](const Call& call, GpuInstance& out) {
    if (call.profile().mig.memory_slices == 0) return kNotSupported;
    const auto start = place == nullptr ? std::nullopt : std::optional(place->start);
    Return outcome = kUnknown;
    call.node().update_gpu(call.index(), [&](GpuState& state) {
      const auto slot = create_gi(state, id, start);
      outcome = slot ? kSuccess : to_return(slot.error());
      if (slot) out = gi_handle(call.index(), state.instances[*slot].id);
    });
    if (outcome == kSuccess) raise_mig_change(call);
    return outcome;
  });
}

}  // namespace

NVML Return nvmlDeviceGetGpuInstanceProfileInfo(Device device, u32 profile, GiProfileInfo* info) {
  return answer(__func__, device, Accept::kGpu, info, [profile](const Call& call, GiProfileInfo& out) {
    constexpr u32 kAnswersWithMigOff = 550;
    if (profile >= profile_enum_end(call.driver_major())) return kInvalidArgument;
    if (!call.mig_on() && call.driver_major() < kAnswersWithMigOff) return kNotSupported;
    const GiProfile* found = gi_profile_by_enum(call.profile(), profile);
    if (found == nullptr) return kNotSupported;
    out = {.id = found->id,
           .p2p = 0,
           .slices = found->slices,
           .max_count = found->max_count,
           .sms = found->sm_count,
           .copy_engines = found->copy_engines,
           .decoders = found->decoders,
           .encoders = found->encoders,
           .jpegs = found->jpegs,
           .ofas = found->ofas,
           .memory_mib = found->memory_mib};
    return kSuccess;
  });
}

NVML Return nvmlDeviceGetGpuInstancePossiblePlacements(Device device, u32 id, Placement* into, u32* count) {
  return placements(__func__, device, id, into, count, false);
}
NVML Return nvmlDeviceGetGpuInstancePossiblePlacements_v2(Device device, u32 id, Placement* into, u32* count) {
  return placements(__func__, device, id, into, count, true);
}

NVML Return nvmlDeviceCreateGpuInstance(Device device, u32 id, GpuInstance* instance) {
  return create(__func__, device, id, nullptr, instance);
}
NVML Return nvmlDeviceCreateGpuInstanceWithPlacement(Device device, u32 id, const Placement* place,
                                                     GpuInstance* instance) {
  return create(__func__, device, id, place, instance);
}

NVML Return nvmlGpuInstanceDestroy(GpuInstance instance) {
  const Call call(__func__, instance, Accept::kGpuInstance);
  if (call.refusal() != kSuccess) return call.refusal();
  if (call.lies()) return lie(call);
  const auto slot = static_cast<std::size_t>(&call.gi() - call.gpu().instances);
  for (const ProcessRow& row : call.node().processes(call.index())) {
    if (row.gpu_instance == call.gi().id) return kInUse;
  }
  Return outcome = kUnknown;
  call.node().update_gpu(call.index(), [&](GpuState& state) {
    const auto done = destroy_gi(state, slot);
    outcome = done ? kSuccess : to_return(done.error());
  });
  if (outcome == kSuccess) raise_mig_change(call);
  return outcome;
}

// There is no size to check: the caller provides room for as many as the profile permits.
NVML Return nvmlDeviceGetGpuInstances(Device device, u32 id, GpuInstance* instances, u32* count) {
  return answer(__func__, device, Accept::kGpu, count, [=](const Call& call, u32& out) {
    if (!call.mig_on()) return kNotSupported;
    if (instances == nullptr || gi_profile_by_id(call.profile(), id) == nullptr) return kInvalidArgument;
    std::vector<u32> ids;
    for (const auto& gi : call.gpu().instances) {
      if (gi.used != 0 && call.profile().mig.profiles[gi.profile].id == id) ids.push_back(gi.id);
    }
    std::ranges::sort(ids);
    for (std::size_t i = 0; i < ids.size(); ++i) instances[i] = gi_handle(call.index(), ids[i]);
    out = static_cast<u32>(ids.size());
    return kSuccess;
  });
}

NVML Return nvmlDeviceGetGpuInstanceById(Device device, u32 id, GpuInstance* instance) {
  return answer(__func__, device, Accept::kGpu, instance, [id](const Call& call, GpuInstance& out) {
    if (!call.mig_on()) return kNotSupported;
    if (find_gi(call.gpu(), id) == nullptr) return kNotFound;
    out = gi_handle(call.index(), id);
    return kSuccess;
  });
}

NVML Return nvmlGpuInstanceGetInfo(GpuInstance instance, GpuInstanceInfo* info) {
  return answer(__func__, instance, Accept::kGpuInstance, info, [](const Call& call, GpuInstanceInfo& out) {
    out = {gpu_handle(call.index()),
           call.gi().id,
           call.gi_profile().id,
           {call.gi().start, call.gi_profile().placement_size}};
  });
}

}  // namespace tranche::sim::nvml
