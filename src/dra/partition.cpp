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

std::uint32_t slices_of(const mig::Placement& place) {
  return in_bounds(place) ? ((1u << place.size) - 1) << place.start : 0;
}

Counters counters_of(const mig::Profile& profile, const mig::Placement& place) {
  return {slices_of(place), profile.memory_mib, profile.sm_count, profile.engines};
}

// As many of one profile as the driver makes at a time have room, so no counter refuses what the driver accepts.
Counters all_of(const std::vector<mig::Profile>& profiles) {
  Counters all;
  for (const auto& profile : profiles) {
    const std::uint32_t most = std::max<std::uint32_t>(profile.at_most, 1);
    all.memory_mib = std::max(all.memory_mib, profile.memory_mib * most);
    all.sms = std::max(all.sms, profile.sm_count * most);
    for (std::size_t i = 0; i < all.engines.size(); ++i)
      all.engines[i] = std::max(all.engines[i], profile.engines[i] * most);
    for (const auto& place : profile.placements) all.memory_slices |= slices_of(place);
  }
  return all;
}

template <class Number>
Number less(Number all, Number part) {
  return all > part ? all - part : 0;
}

void take_away(const PartitionableGpu& gpu, Counters& all) {
  for (const auto& instance : gpu.foreign) {
    all.memory_slices &= ~slices_of(instance.place);
    const auto* profile = mig::find_profile(gpu.profiles, instance.profile_id);
    if (profile == nullptr) continue;
    all.memory_mib = less(all.memory_mib, profile->memory_mib);
    all.sms = less(all.sms, profile->sm_count);
    for (std::size_t i = 0; i < all.engines.size(); ++i) all.engines[i] = less(all.engines[i], profile->engines[i]);
  }
}

// A figure that is not known of each profile is not counted: a sum without the whole GPU's would refuse what fits.
void leave_out_unknown(const std::vector<mig::Profile>& profiles, Counters& counters) {
  if (std::ranges::find(profiles, 0u, &mig::Profile::sm_count) != profiles.end()) counters.sms = 0;
  if (std::ranges::find(profiles, 0u, &mig::Profile::memory_mib) != profiles.end()) counters.memory_mib = 0;
}

}  // namespace

std::vector<std::pair<std::string, std::uint64_t>> named_counters(const Counters& counters, const Counters& shown) {
  std::vector<std::pair<std::string, std::uint64_t>> named;
  const auto add = [&named](std::string name, std::uint64_t value, bool is_shown) {
    if (is_shown) named.emplace_back(std::move(name), value);
  };
  add("memory", counters.memory_mib, shown.memory_mib > 0);
  add("multiprocessors", counters.sms, shown.sms > 0);
  for (std::size_t i = 0; i < kEngineNames.size(); ++i) add(kEngineNames[i], counters.engines[i], shown.engines[i] > 0);
  for (std::uint32_t i = 0; i < kMostMemorySlices; ++i)
    add(fmt::format("memory-slice-{}", i), counters.memory_slices >> i & 1u, (shown.memory_slices >> i & 1u) != 0);
  return named;
}

Counters larger(const Counters& a, const Counters& b) {
  Counters out{a.memory_slices | b.memory_slices, std::max(a.memory_mib, b.memory_mib), std::max(a.sms, b.sms), {}};
  for (std::size_t i = 0; i < out.engines.size(); ++i) out.engines[i] = std::max(a.engines[i], b.engines[i]);
  return out;
}

std::vector<PlacedProfile> partitions_of(const PartitionableGpu& gpu) {
  Counters left = all_of(gpu.profiles);
  take_away(gpu, left);
  leave_out_unknown(gpu.profiles, left);
  std::vector<std::pair<std::size_t, PlacedProfile>> found;  // with how many others it overlaps
  for (const auto& profile : gpu.profiles) {
    for (const auto& place : profile.placements) {
      if (!in_bounds(place)) continue;
      std::size_t beside = 0;
      for (const auto& other : gpu.profiles)
        beside += static_cast<std::size_t>(
            std::ranges::count_if(other.placements, [&](const auto& theirs) { return mig::overlap(place, theirs); }));
      Counters takes = counters_of(profile, place);
      leave_out_unknown(gpu.profiles, takes);
      found.push_back({beside, {&profile, {{profile.id, profile.slices, place}, takes, left}}});
    }
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
  for (auto& [beside, one] : found) placed.push_back(one);
  return placed;
}

}  // namespace tranche::dra
