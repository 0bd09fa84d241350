#include "dra/partition.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace tranche::dra {
namespace {

constexpr std::array kEngineNames{"copy-engines", "decoders", "encoders", "jpeg-engines", "ofa-engines"};

bool in_bounds(const mig::Placement& place) {
  return place.size > 0 && place.start < kMostMemorySlices && place.size <= kMostMemorySlices - place.start;
}

// A figure that is not known of each profile is not counted: a sum without the whole GPU's would refuse what fits.
Counters counters_of(const std::vector<mig::Profile>& profiles, const mig::Profile& profile,
                     const mig::Placement& place) {
  Counters counters;
  const auto add = [&](std::string name, std::uint64_t value) {
    if (value > 0) counters.emplace(std::move(name), value);
  };
  if (std::ranges::find(profiles, 0u, &mig::Profile::memory_mib) == profiles.end()) add("memory", profile.memory_mib);
  if (std::ranges::find(profiles, 0u, &mig::Profile::sm_count) == profiles.end())
    add("multiprocessors", profile.sm_count);
  for (std::size_t i = 0; i < kEngineNames.size(); ++i) add(kEngineNames[i], profile.engines[i]);
  for (std::uint32_t i = 0; i < place.size && in_bounds(place); ++i)
    add(fmt::format("memory-slice-{}", place.start + i), 1);
  return counters;
}

bool is_slice(const std::string& counter) {
  return counter.starts_with("memory-slice-");
}

}  // namespace

std::vector<PlacedProfile> partitions_of(const PartitionableGpu& gpu) {
  Counters left;
  std::vector<std::pair<std::size_t, PlacedProfile>> found;  // with how many others it overlaps
  for (const auto& profile : gpu.profiles) {
    for (const auto& place : profile.placements) {
      if (!in_bounds(place)) continue;
      std::size_t beside = 0;
      for (const auto& other : gpu.profiles)
        beside += static_cast<std::size_t>(
            std::ranges::count_if(other.placements, [&](const auto& theirs) { return mig::overlap(place, theirs); }));
      const Counters takes = counters_of(gpu.profiles, profile, place);
      // As many of one profile as the driver makes at a time have room, so no counter refuses what the driver accepts.
      for (const auto& [name, value] : takes)
        left[name] = std::max(left[name], is_slice(name) ? 1 : value * std::max(profile.at_most, 1u));
      found.push_back({beside, {&profile, {{profile.id, profile.slices, place}, takes, {}}}});
    }
  }
  for (const auto& instance : gpu.foreign) {
    const auto* profile = mig::find_profile(gpu.profiles, instance.profile_id);
    const auto taken = counters_of(gpu.profiles, profile == nullptr ? mig::Profile{} : *profile, instance.place);
    for (auto& [name, value] : left)
      if (const auto part = taken.find(name); part != taken.end()) value -= std::min(value, part->second);
  }
  // Those with media engines or graphics come after the plain ones of their size.
  const auto key = [](const auto& one) {
    const auto& [beside, placed] = one;
    const mig::Profile& profile = *placed.profile;
    return std::tuple(profile.memory_mib, profile.slices, profile.name.size(), std::string_view(profile.name), beside,
                      placed.partition.instance.place.start);
  };
  std::ranges::stable_sort(found, {}, key);
  std::vector<PlacedProfile> placed;
  for (auto& [beside, one] : found) {
    one.partition.of_gpu = left;
    placed.push_back(std::move(one));
  }
  return placed;
}

}  // namespace tranche::dra
