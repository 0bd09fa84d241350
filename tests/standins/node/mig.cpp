#include "mig.h"

#include <algorithm>

#include "base/text.h"

namespace tranche::sim {
namespace {

std::uint32_t span_mask(std::uint32_t start, std::uint32_t size) {
  return ((1u << size) - 1u) << start;
}

// The used memory slices, as bits.
std::uint32_t taken_slices(const GpuState& gpu) {
  std::uint32_t taken = 0;
  for (const auto& gi : gpu.instances) {
    if (gi.used != 0) taken |= span_mask(gi.start, gpu.profile.mig.profiles[gi.profile].placement_size);
  }
  return taken;
}

std::uint32_t compute_slices_taken(const GpuState& gpu) {
  std::uint32_t sum = 0;
  for (const auto& gi : gpu.instances) {
    if (gi.used != 0) sum += gpu.profile.mig.profiles[gi.profile].slices;
  }
  return sum;
}

std::uint32_t most_slices(const GpuProfile& profile) {
  std::uint32_t most = 0;
  for (std::uint32_t i = 0; i < profile.mig.profile_count; ++i) most = std::max(most, profile.mig.profiles[i].slices);
  return most;
}

std::uint32_t count_of(const GpuState& gpu, const GiProfile& profile) {
  std::uint32_t count = 0;
  for (const auto& gi : gpu.instances) {
    if (gi.used != 0 && gpu.profile.mig.profiles[gi.profile].id == profile.id) ++count;
  }
  return count;
}

// Like the driver, the placement that leaves the most room for the smallest instances: a 3g goes to slice 4, because
// there it covers the eighth slice, at which no 1g can start.
std::optional<std::uint32_t> best_start(const GpuState& gpu, const GiProfile& profile, std::uint32_t taken) {
  if (compute_slices_taken(gpu) + profile.slices > most_slices(gpu.profile)) return std::nullopt;
  const GiProfile* smallest = gi_profile_by_enum(gpu.profile, 0);
  std::optional<std::uint32_t> best;
  int best_left = -1;
  for (std::uint32_t i = 0; i < profile.placement_count; ++i) {
    const std::uint32_t start = profile.placement_starts[i];
    const std::uint32_t span = span_mask(start, profile.placement_size);
    if ((taken & span) != 0) continue;
    int left = 0;
    for (std::uint32_t k = 0; smallest != nullptr && k < smallest->placement_count; ++k) {
      if (((taken | span) & span_mask(smallest->placement_starts[k], smallest->placement_size)) == 0) ++left;
    }
    if (left <= best_left) continue;
    best = start;
    best_left = left;
  }
  return best;
}

// Ids by profile in the driver's order: 7g 0; 3g and 4g 1–2; 2g 3–6; 1g 7–13. On 4-slice parts 4g 0; 2g 1–2; 1g 3–6.
std::optional<std::uint32_t> free_gi_id(const GpuState& gpu, std::uint32_t slices) {
  const bool four_slices = most_slices(gpu.profile) <= 4;
  std::uint32_t first = four_slices ? 3 : 7, last = four_slices ? 6 : 14;
  if (slices == 2) first = four_slices ? 1 : 3, last = four_slices ? 2 : 6;
  if (slices == 3 || slices == 4) first = 1, last = 2;
  if (slices >= 7 || (four_slices && slices == 4)) first = 0, last = 0;
  for (std::uint32_t id = first; id <= last; ++id) {
    if (find_gi(gpu, id) == nullptr) return id;
  }
  return std::nullopt;
}

std::string new_mig_uuid(GpuState& gpu) {
  const std::string basis = gpu.uuid.str() + "/mig/" + std::to_string(++gpu.mig_births);
  const std::string bits = hex16(stable_hash(basis)) + hex16(stable_hash(basis + "/low"));
  return "MIG-" + bits.substr(0, 8) + "-" + bits.substr(8, 4) + "-" + bits.substr(12, 4) + "-" + bits.substr(16, 4) +
         "-" + bits.substr(20, 12);
}

std::uint32_t free_index(const GpuState& gpu) {
  std::uint32_t index = 0;
  for (const MigDevice& device : mig_devices(gpu)) {
    if (device.index == index) ++index;
  }
  return index;
}

std::uint32_t ci_slices_taken(const GpuInstanceState& gi) {
  std::uint32_t taken = 0;
  for (const auto& ci : gi.compute) {
    if (ci.used != 0) taken |= span_mask(ci.start, ci.slices);
  }
  return taken;
}

}  // namespace

std::string to_string(MigFault fault) {
  switch (fault) {
    case MigFault::kNotMigMode:
      return "MIG is off on this GPU";
    case MigFault::kNoSuchProfile:
      return "this GPU has no such profile";
    case MigFault::kNoRoom:
      return "there is no room left for it";
    case MigFault::kInUse:
      return "it is in use";
    case MigFault::kBadPlacement:
      return "it cannot start at this place";
  }
  return "unknown";
}

const GiProfile* gi_profile_by_enum(const GpuProfile& profile, std::uint32_t enum_value) {
  for (std::uint32_t i = 0; i < profile.mig.profile_count; ++i) {
    if (profile.mig.profiles[i].enum_value == enum_value) return &profile.mig.profiles[i];
  }
  return nullptr;
}

const GiProfile* gi_profile_by_id(const GpuProfile& profile, std::uint32_t id) {
  for (std::uint32_t i = 0; i < profile.mig.profile_count; ++i) {
    if (profile.mig.profiles[i].id == id) return &profile.mig.profiles[i];
  }
  return nullptr;
}

const GiProfile* gi_profile_by_name(const GpuProfile& profile, std::string_view name) {
  for (std::uint32_t i = 0; i < profile.mig.profile_count; ++i) {
    if (profile.mig.profiles[i].name.view() == name) return &profile.mig.profiles[i];
  }
  return nullptr;
}

std::vector<CiProfile> ci_profiles(const MigTraits& mig, const GiProfile& gi) {
  struct Shape {
    std::uint32_t id, slices;
  };
  constexpr std::uint32_t kDoubleMemoryEnum = 9;
  if (gi.slices == 1) {
    const std::uint32_t id = gi.enum_value == kDoubleMemoryEnum ? mig.ci_of_double_memory : 0;
    return {CiProfile{id, 1, 1, gi.sm_count, {0}}};
  }
  std::vector<CiProfile> profiles;
  for (const Shape shape : {Shape{0, 1}, Shape{1, 2}, Shape{2, 3}, Shape{3, 4}, Shape{4, 7}}) {
    const bool whole = shape.slices == gi.slices;
    if (shape.slices > gi.slices || (shape.slices == 3 && gi.slices == 4)) continue;  // a 4g does not have a 3c
    CiProfile profile{shape.id, shape.slices, 0, whole ? gi.sm_count : shape.slices * mig.sms_per_slice, {}};
    const std::uint32_t step = shape.slices == 3 ? 4 : shape.slices;  // 3c starts at 0 or 4
    for (std::uint32_t start = 0; start + shape.slices <= gi.slices; start += step) profile.starts.push_back(start);
    profile.max_count = static_cast<std::uint32_t>(profile.starts.size());
    profiles.push_back(std::move(profile));
  }
  return profiles;
}

std::string mig_name(const GiProfile& gi, std::uint32_t ci_slices) {
  if (ci_slices >= gi.slices) return gi.name.str();
  return std::to_string(ci_slices) + "c." + gi.name.str();
}

std::uint32_t remaining_gis(const GpuState& gpu, const GiProfile& profile) {
  GpuState trial = gpu;
  std::uint32_t count = 0;
  while (count < profile.max_count && create_gi(trial, profile.id, std::nullopt)) ++count;
  return count;
}

std::uint32_t remaining_cis(const GpuState&, const GpuInstanceState& gi, const CiProfile& profile) {
  std::uint32_t taken = ci_slices_taken(gi);
  std::uint32_t count = 0;
  for (const std::uint32_t start : profile.starts) {
    if ((taken & span_mask(start, profile.slices)) != 0) continue;
    taken |= span_mask(start, profile.slices);
    ++count;
  }
  return count;
}

std::expected<std::size_t, MigFault> create_gi(GpuState& gpu, std::uint32_t profile_id,
                                               std::optional<std::uint32_t> start) {
  if (gpu.mig_mode == 0) return std::unexpected(MigFault::kNotMigMode);
  const GiProfile* profile = gi_profile_by_id(gpu.profile, profile_id);
  if (profile == nullptr) return std::unexpected(MigFault::kNoSuchProfile);
  const std::uint32_t taken = taken_slices(gpu);
  if (start) {
    const auto* end = profile->placement_starts + profile->placement_count;
    if (std::find(profile->placement_starts, end, *start) == end) return std::unexpected(MigFault::kBadPlacement);
    const bool slices_left = compute_slices_taken(gpu) + profile->slices <= most_slices(gpu.profile);
    if (!slices_left || (taken & span_mask(*start, profile->placement_size)) != 0) {
      return std::unexpected(MigFault::kNoRoom);
    }
  } else {
    start = best_start(gpu, *profile, taken);
  }
  const auto id = free_gi_id(gpu, profile->slices);
  auto* slot = std::ranges::find(gpu.instances, 0u, &GpuInstanceState::used);
  if (!start || !id || slot == std::end(gpu.instances) || count_of(gpu, *profile) >= profile->max_count) {
    return std::unexpected(MigFault::kNoRoom);
  }
  *slot = GpuInstanceState{};
  slot->id = *id;
  slot->profile = static_cast<std::uint32_t>(profile - gpu.profile.mig.profiles);
  slot->start = *start;
  slot->used = 1;
  return static_cast<std::size_t>(slot - gpu.instances);
}

std::expected<std::size_t, MigFault> create_ci(GpuState& gpu, std::size_t gi_slot, std::uint32_t profile_id,
                                               std::optional<std::uint32_t> start) {
  GpuInstanceState& gi = gpu.instances[gi_slot];
  const auto profiles = ci_profiles(gpu.profile.mig, gpu.profile.mig.profiles[gi.profile]);
  const auto profile = std::ranges::find(profiles, profile_id, &CiProfile::id);
  if (profile == profiles.end()) return std::unexpected(MigFault::kNoSuchProfile);
  if (start && std::ranges::find(profile->starts, *start) == profile->starts.end()) {
    return std::unexpected(MigFault::kBadPlacement);
  }
  const std::uint32_t taken = ci_slices_taken(gi);
  std::optional<std::uint32_t> place;
  for (const std::uint32_t candidate : profile->starts) {
    if (start && candidate != *start) continue;
    if (!place && (taken & span_mask(candidate, profile->slices)) == 0) place = candidate;
  }
  auto* slot = std::ranges::find(gi.compute, 0u, &ComputeInstanceState::used);
  if (!place || slot == std::end(gi.compute)) return std::unexpected(MigFault::kNoRoom);
  *slot = ComputeInstanceState{};
  slot->id = static_cast<std::uint32_t>(slot - gi.compute);
  slot->index = free_index(gpu);
  slot->profile_id = profile->id;
  slot->slices = profile->slices;
  slot->start = *place;
  slot->sm_count = profile->sm_count;
  slot->uuid = new_mig_uuid(gpu);
  slot->used = 1;
  return static_cast<std::size_t>(slot - gi.compute);
}

std::expected<void, MigFault> destroy_gi(GpuState& gpu, std::size_t gi_slot) {
  GpuInstanceState& gi = gpu.instances[gi_slot];
  if (std::ranges::any_of(gi.compute, [](const auto& ci) { return ci.used != 0; })) {
    return std::unexpected(MigFault::kInUse);
  }
  gi.used = 0;
  return {};
}

std::expected<void, std::string> apply_mig_layout(GpuState& gpu, const std::vector<std::string>& profile_names) {
  if (gpu.profile.mig.memory_slices == 0) return std::unexpected(gpu.profile.name.str() + " has no MIG");
  std::vector<const GiProfile*> wanted;
  for (const auto& name : profile_names) {
    const GiProfile* profile = gi_profile_by_name(gpu.profile, name);
    if (profile == nullptr) {
      std::vector<std::string> known;
      for (std::uint32_t i = 0; i < gpu.profile.mig.profile_count; ++i) {
        known.push_back(gpu.profile.mig.profiles[i].name.str());
      }
      return std::unexpected(in_quotes(name) + " is not a MIG profile of " + gpu.profile.name.str() +
                             "; write one of: " + join(known, ", "));
    }
    wanted.push_back(profile);
  }
  std::ranges::stable_sort(
      wanted, [](const GiProfile* a, const GiProfile* b) { return a->placement_size > b->placement_size; });
  GpuState trial = gpu;
  trial.mig_mode = trial.mig_pending = 1;
  for (auto& gi : trial.instances) gi.used = 0;
  for (const GiProfile* profile : wanted) {
    const auto slot = create_gi(trial, profile->id, std::nullopt);
    if (!slot) return std::unexpected("no room for " + profile->name.str() + " beside the other MIG instances");
    const auto whole = ci_profiles(trial.profile.mig, *profile).back();
    if (const auto ci = create_ci(trial, *slot, whole.id, std::nullopt); !ci) {
      return std::unexpected("no room for a compute instance in " + profile->name.str());
    }
  }
  gpu = trial;
  return {};
}

std::vector<MigDevice> mig_devices(const GpuState& gpu) {
  std::vector<MigDevice> devices;
  for (const auto& gi : gpu.instances) {
    for (const auto& ci : gi.compute) {
      if (gi.used != 0 && ci.used != 0) devices.push_back({ci.index, gi.id, ci.id});
    }
  }
  std::ranges::sort(devices, {}, &MigDevice::index);
  return devices;
}

const GpuInstanceState* find_gi(const GpuState& gpu, std::uint32_t id) {
  for (const auto& gi : gpu.instances) {
    if (gi.used != 0 && gi.id == id) return &gi;
  }
  return nullptr;
}

const ComputeInstanceState* find_ci(const GpuInstanceState& gi, std::uint32_t id) {
  for (const auto& ci : gi.compute) {
    if (ci.used != 0 && ci.id == id) return &ci;
  }
  return nullptr;
}

}  // namespace tranche::sim
