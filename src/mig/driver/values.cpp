#include "mig/driver/values.h"

#include <algorithm>

#include "mig/mig_models.h"

namespace tranche::host {
namespace {

std::vector<mig::Profile> profiles_of(const MigGpu& gpu) {
  std::vector<mig::Profile> profiles;
  for (const MigKind& kind : gpu.kinds) {
    mig::Profile profile{.id = kind.id,
                         .name = kind.profile.name,
                         .slices = kind.profile.slices,
                         .memory_mib = kind.memory_mib,
                         .sm_count = kind.profile.sm_count,
                         .at_most = kind.profile.at_most,
                         .engines = kind.engines,
                         .placements = {}};
    for (const MigPlace& place : kind.places) profile.placements.push_back({place.start, place.size});
    std::ranges::sort(profile.placements);
    profiles.push_back(std::move(profile));
  }
  const auto no_places = [](const mig::Profile& profile) { return profile.placements.empty(); };
  const mig::Model* model = mig::model_of(gpu.pci_device_id, gpu.name);
  if (model == nullptr) return profiles;
  // A driver that lists none while MIG is off, or that keeps placements from this process.
  if (profiles.empty() || std::ranges::any_of(profiles, no_places)) return model->profiles;
  return profiles;
}

void add_processes(const std::vector<std::uint32_t>& pids, std::vector<mig::Holder>& holders) {
  for (const std::uint32_t pid : pids) holders.push_back({"process " + std::to_string(pid), pid});
}

void add(const std::vector<mig::Holder>& more, std::vector<mig::Holder>& holders) {
  for (const auto& one : more)
    if (std::ranges::find(holders, one) == holders.end()) holders.push_back(one);
}

}  // namespace

mig::GpuState state_of(const MigGpu& gpu, const MigUsers& users) {
  mig::GpuState state;
  state.index = gpu.index;
  state.uuid = gpu.uuid;
  state.name = gpu.name;
  state.pci_device_id = gpu.pci_device_id;
  state.pci_subsystem_id = gpu.pci_subsystem_id;
  state.compute_capability = gpu.compute_capability;
  state.memory = gpu.memory;
  state.capable = gpu.capable;
  state.enabled = gpu.enabled;
  state.pending = gpu.pending;
  if (gpu.capable) state.profiles = profiles_of(gpu);
  add_processes(gpu.processes, state.holders);
  const auto of_all = users ? users(gpu.uuid) : std::vector<mig::Holder>();
  add(of_all, state.holders);
  for (const MigGpuInstance& instance : gpu.instances) {
    mig::GpuInstance one{
        .id = instance.id, .profile_id = instance.profile_id, .placement = {instance.place.start, instance.place.size}};
    add_processes(instance.processes, one.holders);
    add(of_all, one.holders);  // who has the whole GPU has its instances
    one.held = !one.holders.empty();
    for (const MigComputeInstance& compute : instance.compute) {
      const auto by = users && !compute.uuid.empty() ? users(compute.uuid) : std::vector<mig::Holder>();
      one.compute.push_back({.id = compute.id,
                             .placement = {compute.start, compute.slices},
                             .uuid = compute.uuid,
                             .held = !by.empty() || one.held});
      add(by, one.holders);
    }
    state.instances.push_back(std::move(one));
  }
  return state;
}

}  // namespace tranche::host
