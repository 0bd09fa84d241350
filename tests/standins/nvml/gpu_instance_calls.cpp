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

Return find_profile(const Call& call, u32 enum_value, const GiProfile** found) {
  constexpr u32 kAnswersWithMigOff = 550;
  if (enum_value >= profile_enum_end(call.driver_major())) return kInvalidArgument;
  if (!call.mig_on() && call.driver_major() < kAnswersWithMigOff) return kNotSupported;
  *found = gi_profile_by_enum(call.profile(), enum_value);
  return *found == nullptr ? kNotSupported : kSuccess;
}

template <class Info>
void fill_profile(const GiProfile& profile, Info& out) {
  out.id = profile.id;
  out.slices = profile.slices;
  out.max_count = profile.max_count;
  out.sms = profile.sm_count;
  out.copy_engines = profile.copy_engines;
  out.decoders = profile.decoders;
  out.encoders = profile.encoders;
  out.jpegs = profile.jpegs;
  out.ofas = profile.ofas;
  out.memory_mib = profile.memory_mib;
  if constexpr (requires { out.p2p; }) out.p2p = 0;
  if constexpr (requires { out.capabilities; }) out.capabilities = 0;
  if constexpr (requires { out.name; }) put_text("MIG " + profile.name.str(), out.name);
}

// Versions 2 and 3 have the same size; only the top byte differs.
Return fill_versioned(const GiProfile& profile, GiProfileInfoV2& out) {
  if (out.version == version_of<GiProfileInfoV2>(2)) {
    fill_profile(profile, out);
    return kSuccess;
  }
  if (out.version != version_of<GiProfileInfoV3>(3)) return kArgumentVersionMismatch;
  fill_profile(profile, reinterpret_cast<GiProfileInfoV3&>(out));
  return kSuccess;
}

Return placements(std::string_view name, Device device, u32 id, Placement* into, u32* count, bool asks_with_null) {
  return answer(name, device, Accept::kGpu, count, [=](const Call& call, u32& out) {
    const GiProfile* profile = gi_profile_by_id(call.profile(), id);
    if (profile == nullptr) return call.profile().mig.memory_slices == 0 ? kNotSupported : kInvalidArgument;
    if (!call.may_change()) return kNoPermission;
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
    if (!call.may_change()) return kNoPermission;
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
    const GiProfile* found = nullptr;
    const Return result = find_profile(call, profile, &found);
    if (result == kSuccess) fill_profile(*found, out);
    return result;
  });
}

NVML Return nvmlDeviceGetGpuInstanceProfileInfoV(Device device, u32 profile, GiProfileInfoV2* info) {
  return answer(__func__, device, Accept::kGpu, info, [profile](const Call& call, GiProfileInfoV2& out) {
    const GiProfile* found = nullptr;
    const Return result = find_profile(call, profile, &found);
    return result == kSuccess ? fill_versioned(*found, out) : result;
  });
}

NVML Return nvmlDeviceGetGpuInstanceProfileInfoByIdV(Device device, u32 id, GiProfileInfoV2* info) {
  return answer(__func__, device, Accept::kGpu, info, [id](const Call& call, GiProfileInfoV2& out) {
    const GiProfile* found = gi_profile_by_id(call.profile(), id);
    return found == nullptr ? kNotSupported : fill_versioned(*found, out);
  });
}

NVML Return nvmlDeviceGetGpuInstancePossiblePlacements(Device device, u32 id, Placement* into, u32* count) {
  return placements(__func__, device, id, into, count, false);
}
NVML Return nvmlDeviceGetGpuInstancePossiblePlacements_v2(Device device, u32 id, Placement* into, u32* count) {
  return placements(__func__, device, id, into, count, true);
}

NVML Return nvmlDeviceGetGpuInstanceRemainingCapacity(Device device, u32 id, u32* count) {
  return answer(__func__, device, Accept::kGpu, count, [id](const Call& call, u32& out) {
    if (!call.mig_on()) return kNotSupported;
    const GiProfile* profile = gi_profile_by_id(call.profile(), id);
    if (profile == nullptr) return kInvalidArgument;
    out = remaining_gis(call.gpu(), *profile);
    return kSuccess;
  });
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
  if (!call.may_change()) return kNoPermission;
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
