#include "mig/state.h"

#include <fmt/format.h>

#include <algorithm>

namespace tranche::mig {

bool GpuInstance::busy() const {
  return held || std::ranges::any_of(compute, &ComputeInstance::held);
}

ModeChange mode_change_of(inventory::ComputeCapability capability) {
  return capability.major < 9 ? ModeChange::kReset : ModeChange::kIdle;
}

std::string profile_name(const std::vector<Profile>& profiles, std::uint32_t id) {
  const Profile* profile = find_profile(profiles, id);
  return profile == nullptr ? fmt::format("profile {}", id) : profile->name;
}

std::vector<std::string> device_names(const GpuState& gpu) {
  std::vector<std::string> names;
  for (const auto& instance : gpu.instances) {
    const Profile* profile = find_profile(gpu.profiles, instance.profile_id);
    for (const auto& compute : instance.compute) {
      const std::string name = profile_name(gpu.profiles, instance.profile_id);
      const bool whole = profile == nullptr || compute.placement.size >= profile->slices;
      names.push_back(whole ? name : fmt::format("{}c.{}", compute.placement.size, name));
    }
  }
  return names;
}

}  // namespace tranche::mig
