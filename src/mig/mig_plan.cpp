#include "mig/mig_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace tranche::mig {
namespace {

std::string described(const GpuState& gpu) {
  return fmt::format("GPU {} ({})", gpu.index, gpu.name);
}

// The wanted set in the names that this GPU has; a name that no profile answers to is a Problem.
std::optional<Instances> resolved(const Entry& entry, const GpuState& gpu, std::vector<Problem>& problems) {
  Instances wanted;
  bool good = true;
  for (const auto& [name, count] : entry.instances) {
    const auto placed = entry.places.find(name);
    const Place place = placed != entry.places.end() ? placed->second : entry.place;
    const Profile* profile = resolve_profile(gpu.profiles, name);
    if (profile == nullptr) {
      problems.push_back({Severity::kError, place, to_string(name),
                          fmt::format("{} has no MIG profile {}", described(gpu), name.gpu_instance()),
                          gpu.profiles.empty()
                              ? "its profiles are not known: a driver older than 550 lists them only while MIG is on"
                              : "its profiles are " + list_of(gpu.profiles)});
      good = false;
      continue;
    }
    auto own = parse_profile_name(profile->name).value_or(name);
    own.compute_slices = name.compute_slices;
    if (own.gigabytes != name.gigabytes)
      problems.push_back({Severity::kWarning, place, to_string(name),
                          fmt::format("{} calls this profile {}", described(gpu), profile->name),
                          "names follow the memory that the driver reports; write " + profile->name});
    wanted[own] += count;
  }
  return good ? std::optional(std::move(wanted)) : std::nullopt;
}

// The entry that decides about a GPU: the last that names it. nullptr = none.
const Entry* entry_of(const Configuration& configuration, const GpuState& gpu) {
  const Entry* found = nullptr;
  for (const Entry& entry : configuration.entries)
    if (entry.names(gpu.index, gpu.pci_device_id, gpu.pci_subsystem_id)) found = &entry;
  return found;
}

GpuPlan plan_gpu(const Entry& entry, const GpuState& gpu, std::vector<Problem>& problems, const PlanOptions& options) {
  GpuPlan nothing = left_alone(gpu);
  nothing.matched = nothing.as_wanted = true;
  if (!gpu.capable) {
    // As mig-parted: "all" passes over GPUs without MIG, an index does not.
    if (entry.enabled && entry.devices)
      problems.push_back({Severity::kError, entry.place, "devices", described(gpu) + " does not support MIG",
                          fmt::format("remove {} from devices", gpu.index)});
    else
      nothing.matched = !entry.enabled;
    return nothing;
  }
  if (!entry.enabled || options.mode_only) return plan_to(gpu, with_mode(gpu, entry.enabled));
  const auto wanted = resolved(entry, gpu, problems);
  if (!wanted) return nothing;
  const auto chosen = choose_layout(gpu.profiles, *wanted, gpu.enabled ? gpu.instances : std::vector<GpuInstance>{});
  if (!chosen) {
    problems.push_back({Severity::kError, entry.place, "mig-devices",
                        fmt::format("{}: {}", described(gpu), chosen.error().what), chosen.error().remedy});
    return nothing;
  }
  GpuPlan plan = plan_to(gpu, chosen->layout);
  if (!plan.blockers.empty() && gpu.enabled)
    plan.fits_beside = to_string(largest_beside(gpu.profiles, *wanted, gpu.instances));
  return plan;
}

}  // namespace

bool Plan::as_wanted() const {
  return possible() && std::ranges::all_of(gpus, [](const GpuPlan& gpu) { return !gpu.matched || gpu.as_wanted; });
}
bool Plan::possible() const {
  return !has_error(problems);
}
bool Plan::blocked() const {
  return std::ranges::any_of(gpus, [](const GpuPlan& gpu) { return !gpu.blockers.empty(); });
}
bool Plan::needs_reset() const {
  return std::ranges::any_of(gpus, &GpuPlan::needs_reset);
}

Plan make_plan(const Configuration& configuration, const std::vector<GpuState>& gpus, const PlanOptions& options) {
  Plan plan;
  plan.configuration = configuration.name;
  for (const GpuState& gpu : gpus) {
    const Entry* entry = entry_of(configuration, gpu);
    plan.gpus.push_back(entry != nullptr ? plan_gpu(*entry, gpu, plan.problems, options) : left_alone(gpu));
  }
  for (const Entry& entry : configuration.entries) {
    if (!entry.devices || options.some_are_silent) continue;
    for (const std::uint32_t index : *entry.devices)
      if (std::ranges::find(gpus, index, &GpuState::index) == gpus.end())
        plan.problems.push_back({Severity::kError, entry.place, "devices", fmt::format("there is no GPU {}", index),
                                 fmt::format("this node has {} GPUs, counted from 0", gpus.size())});
  }
  return plan;
}

std::vector<std::string> differences(const Configuration& configuration, const std::vector<GpuState>& gpus,
                                     bool mode_only) {
  std::vector<std::string> all;
  for (const GpuState& gpu : gpus) {
    const Entry* entry = entry_of(configuration, gpu);
    if (entry == nullptr) {  // mig-parted asks for an entry only where it compares instances
      if (!mode_only) all.push_back(described(gpu) + ": no entry of the configuration names it");
      continue;
    }
    if (!gpu.capable && !entry->enabled) continue;
    if (!gpu.capable) {
      all.push_back(described(gpu) + " does not support MIG");
      continue;
    }
    if (gpu.enabled != entry->enabled) {
      all.push_back(fmt::format("{}: MIG is {}, and the configuration asks for {}", described(gpu),
                                gpu.enabled ? "on" : "off", entry->enabled ? "on" : "off"));
      continue;
    }
    if (mode_only || !entry->enabled) continue;
    Instances has;
    std::string foreign;
    for (const auto& name : device_names(gpu)) {
      if (const auto parsed = parse_profile_name(name))
        ++has[*parsed];
      else
        foreign = name;
    }
    std::vector<Problem> problems;
    const auto wanted = resolved(*entry, gpu, problems);
    if (!wanted || *wanted != has || !foreign.empty())
      all.push_back(fmt::format("{}: it has {}, and the configuration asks for {}", described(gpu), to_string(has),
                                to_string(entry->instances)));
    else if (const auto empty = std::ranges::find_if(
                 gpu.instances, [](const GpuInstance& instance) { return instance.compute.empty(); });
             empty != gpu.instances.end())
      all.push_back(fmt::format("{}: GPU instance {} ({}) has no compute instance", described(gpu), empty->id,
                                profile_name(gpu.profiles, empty->profile_id)));
  }
  return all;
}

}  // namespace tranche::mig
