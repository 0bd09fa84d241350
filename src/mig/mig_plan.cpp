#include "mig/mig_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/text.h"

namespace tranche::mig {
namespace {

// Of the compute instances of a GPU instance: which stay, and the places of those that are missing.
struct Remaining {
  std::vector<bool> stays;
  std::vector<Placement> missing;
};

// What lies where it is wanted stays; then what has a wanted size, because the driver chooses where it makes one.
Remaining remaining(const GpuInstance& instance, const GpuInstance& wanted) {
  Remaining found{std::vector<bool>(instance.compute.size()), {}};
  for (const ComputeInstance& one : wanted.compute) found.missing.push_back(one.placement);
  for (const bool exactly : {true, false})
    for (std::size_t i = 0; i < instance.compute.size(); ++i) {
      const Placement& at = instance.compute[i].placement;
      const auto match = std::ranges::find_if(
          found.missing, [&](const Placement& one) { return exactly ? one == at : one.size == at.size; });
      if (found.stays[i] || match == found.missing.end()) continue;
      found.stays[i] = true;
      found.missing.erase(match);
    }
  return found;
}

// How the mode changes, and what that needs. waits: it was set already.
std::string mode_why(const GpuState& gpu, bool waits) {
  if (mode_needs_reset(gpu.compute_capability))
    return "GPUs of the Ampere generation change the MIG mode at a reset: of this GPU with no process on it, or of the "
           "machine";
  if (waits) return "the mode was set and the driver waits for a reset of the GPU or of the virtual machine";
  return "the MIG mode changes at once when no process holds the GPU";
}

Step set_mode(const GpuState& now, bool on) {
  // A pending mode that is the wanted one has been set already: only the reset is missing.
  if (now.pending == on) return {.what = Step::What::kReset, .why = mode_why(now, true)};
  return {.what = on ? Step::What::kModeOn : Step::What::kModeOff, .why = "the configuration asks for it"};
}

std::optional<Step> step_away(const GpuState& now, const GpuState& wanted) {
  for (const GpuInstance& instance : now.instances) {
    const auto part = find_at(wanted.instances, instance.profile_id, instance.placement);
    const bool stays = part != wanted.instances.end();
    Step step{.what = Step::What::kDestroyInstance,
              .instance = instance.id,
              .profile_id = instance.profile_id,
              .profile = profile_name(now.profiles, instance.profile_id),
              .placement = instance.placement,
              .why = stays             ? "the configuration divides the instance differently"
                     : !wanted.enabled ? "MIG is switched off"
                                       : "the configuration has no place for it"};
    const auto kept = stays ? remaining(instance, *part).stays : std::vector<bool>(instance.compute.size());
    for (std::size_t i = 0; i < kept.size(); ++i) {
      if (kept[i]) continue;
      step.what = Step::What::kDestroyCompute;
      step.compute = instance.compute[i].id;
      step.compute_placement = instance.compute[i].placement;
      step.profile = compute_name(now.profiles, instance.profile_id, step.compute_placement.size);
      return step;
    }
    if (!stays) return step;
  }
  return std::nullopt;
}

std::optional<Step> step_towards(const GpuState& now, const GpuState& wanted) {
  for (const GpuInstance& part : wanted.instances) {
    const auto there = find_at(now.instances, part.profile_id, part.placement);
    Step step{.what = Step::What::kCreateInstance,
              .profile_id = part.profile_id,
              .profile = profile_name(now.profiles, part.profile_id),
              .placement = part.placement,
              .why = "the configuration asks for it"};
    if (there == now.instances.end()) return step;
    const auto missing = remaining(*there, part).missing;
    if (missing.empty()) continue;
    step.what = Step::What::kCreateCompute;
    if (there->id != kNotMadeYet) step.instance = there->id;
    // Large ones find room only while it is whole.
    step.compute_placement = *std::ranges::max_element(missing, {}, &Placement::size);
    step.profile = compute_name(now.profiles, part.profile_id, step.compute_placement.size);
    return step;
  }
  return std::nullopt;
}

std::optional<Blocker> blocker_of(GpuState& now, const Step& step, const GpuState& wanted) {
  if (!destroys(step)) return std::nullopt;
  const auto instance = find_at(now.instances, step.profile_id, step.placement);
  if (instance == now.instances.end()) {  // the mode
    if (now.enabled == wanted.enabled || now.holders.empty()) return std::nullopt;
    return Blocker{"the whole GPU", now.holders};
  }
  const bool held =
      step.compute ? instance->held || std::ranges::find(instance->compute, *step.compute, &ComputeInstance::id)->held
                   : instance->busy();
  if (!held) return std::nullopt;
  return Blocker{
      fmt::format("{} at {}", profile_name(now.profiles, instance->profile_id), to_string(instance->placement)),
      instance->holders};
}

void take(GpuState& gpu, const Step& step) {
  const auto instance = find_at(gpu.instances, step.profile_id, step.placement);
  switch (step.what) {
    case Step::What::kDestroyCompute:
      std::erase_if(instance->compute, [&](const ComputeInstance& one) { return one.id == step.compute; });
      return;
    case Step::What::kDestroyInstance:
      gpu.instances.erase(instance);
      return;
    case Step::What::kModeOn:
    case Step::What::kModeOff:
      gpu.pending = step.what == Step::What::kModeOn;
      if (!mode_needs_reset(gpu.compute_capability)) gpu.enabled = gpu.pending;
      return;
    case Step::What::kReset:
      gpu.enabled = gpu.pending;
      return;
    case Step::What::kCreateInstance:
      gpu.instances.push_back({.id = kNotMadeYet, .profile_id = step.profile_id, .placement = step.placement});
      std::ranges::sort(gpu.instances, {}, &GpuInstance::placement);
      return;
    case Step::What::kCreateCompute:
      instance->compute.push_back({.id = kNotMadeYet, .placement = step.compute_placement});
      std::ranges::sort(instance->compute, {}, &ComputeInstance::placement);
      return;
  }
}

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

// "GPU 0 (NVIDIA H200) 0x233510DE", for device filters.
std::string numbers_of(const std::vector<GpuState>& gpus) {
  return join(gpus, ", ", [](const GpuState& gpu) {
    return described(gpu) + " " + to_string(DeviceFilter{gpu.pci_device_id, std::nullopt});
  });
}

GpuPlan plan_gpu(const Entry& entry, const GpuState& gpu, std::vector<Problem>& problems, bool mode_only) {
  GpuPlan nothing = left_alone(gpu);
  nothing.matched = true;
  if (!gpu.capable) {
    // As mig-parted: "all" passes over GPUs without MIG, an index does not.
    if (entry.enabled && entry.devices)
      problems.push_back({Severity::kError, entry.place, "devices", described(gpu) + " does not support MIG",
                          fmt::format("remove {} from devices", gpu.index)});
    else
      nothing.matched = nothing.as_wanted = !entry.enabled;
    return nothing;
  }
  if (!entry.enabled || mode_only) return plan_to(gpu, with_mode(gpu, entry.enabled));
  const auto wanted = resolved(entry, gpu, problems);
  if (!wanted) return nothing;
  const auto chosen = choose_layout(gpu.profiles, *wanted, gpu.enabled ? gpu.instances : std::vector<GpuInstance>{});
  if (!chosen) {
    problems.push_back({Severity::kError, entry.place, "mig-devices",
                        fmt::format("{}: {}", described(gpu), chosen.error().what), chosen.error().remedy});
    return nothing;
  }
  GpuState target = with_mode(gpu, true);
  target.instances = chosen->instances;
  GpuPlan plan = plan_to(gpu, target);
  if (!plan.blockers.empty() && gpu.enabled)
    plan.fits_beside = to_string(largest_beside(gpu.profiles, *wanted, gpu.instances));
  return plan;
}

// "" = none.
std::string difference(const Entry* entry, const GpuState& gpu, bool mode_only) {
  // mig-parted asks for an entry only where it compares instances.
  if (entry == nullptr) return mode_only ? "" : ": no entry of the configuration names it";
  if (!gpu.capable) return entry->enabled ? " does not support MIG" : "";
  if (gpu.enabled != entry->enabled)
    return fmt::format(": MIG is {}, and the configuration asks for {}", gpu.enabled ? "on" : "off",
                       entry->enabled ? "on" : "off");
  if (mode_only || !entry->enabled) return "";
  const Instances has = instances_of(gpu);
  std::vector<Problem> problems;
  if (resolved(*entry, gpu, problems) != has)
    return fmt::format(": it has {}, and the configuration asks for {}", to_string(has), to_string(entry->instances));
  const auto empty =
      std::ranges::find_if(gpu.instances, [](const GpuInstance& instance) { return instance.compute.empty(); });
  if (empty == gpu.instances.end()) return "";
  return fmt::format(": GPU instance {} ({}) has no compute instance", empty->id,
                     profile_name(gpu.profiles, empty->profile_id));
}

}  // namespace

std::optional<Step> next_step(const GpuState& now, const GpuState& wanted) {
  const bool mode_is_right = now.enabled == wanted.enabled && now.pending == wanted.enabled;
  if (wanted.enabled && !mode_is_right) return set_mode(now, true);
  if (auto step = step_away(now, wanted)) return step;
  if (!mode_is_right) return set_mode(now, false);
  return wanted.enabled ? step_towards(now, wanted) : std::nullopt;
}

bool GpuPlan::needs_reset() const {
  return std::ranges::find(steps, Step::What::kReset, &Step::what) != steps.end();
}
std::vector<GpuInstance> GpuPlan::goes() const {
  std::vector<GpuInstance> gone;
  std::ranges::copy_if(now.instances, std::back_inserter(gone), [this](const GpuInstance& instance) {
    return std::ranges::find(after.instances, instance.id, &GpuInstance::id) == after.instances.end();
  });
  return gone;
}
std::vector<std::string> GpuPlan::leaves() const {
  std::vector<std::string> uuids;
  for (const Step& step : steps) {
    if (step.what != Step::What::kDestroyCompute) continue;
    const auto instance = std::ranges::find(now.instances, step.instance, &GpuInstance::id);
    const auto compute = std::ranges::find(instance->compute, step.compute, &ComputeInstance::id);
    if (!compute->uuid.empty()) uuids.push_back(compute->uuid);
  }
  return uuids;
}

GpuPlan left_alone(const GpuState& now) {
  return {.now = now, .after = now};
}

GpuPlan plan_to(const GpuState& now, const GpuState& target) {
  GpuPlan plan{.now = now, .matched = true, .after = now};
  while (auto step = next_step(plan.after, target)) {
    if (auto blocker = blocker_of(plan.after, *step, target);
        blocker && std::ranges::find(plan.blockers, *blocker) == plan.blockers.end())
      plan.blockers.push_back(*std::move(blocker));
    take(plan.after, *step);
    plan.steps.push_back(*std::move(step));
  }
  plan.as_wanted = plan.steps.empty();
  if (plan.mode_changes()) plan.mode_why = mode_why(now, now.pending == target.enabled);
  return plan;
}

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

Plan make_plan(const Configuration& configuration, const std::vector<GpuState>& gpus, bool mode_only) {
  Plan plan;
  plan.configuration = configuration.name;
  for (const GpuState& gpu : gpus) {
    const Entry* entry = entry_of(configuration, gpu);
    plan.gpus.push_back(entry != nullptr ? plan_gpu(*entry, gpu, plan.problems, mode_only) : left_alone(gpu));
  }
  for (const Entry& entry : configuration.entries) {
    if (!entry.devices) continue;
    for (const std::uint32_t index : *entry.devices)
      if (std::ranges::find(gpus, index, &GpuState::index) == gpus.end())
        plan.problems.push_back({Severity::kWarning, entry.place, "devices",
                                 fmt::format("names GPU {}, which is not on this node or does not answer", index),
                                 "remove it, unless the GPU comes back"});
  }
  if (!gpus.empty() && std::ranges::none_of(plan.gpus, &GpuPlan::matched))
    plan.problems.push_back({Severity::kWarning,
                             configuration.entries.empty() ? Place{} : configuration.entries.front().place,
                             "mig-configs." + configuration.name,
                             "has no entry for the GPUs of this node, which stay as they are: " + numbers_of(gpus),
                             "correct device-filter and devices, or select another configuration"});
  return plan;
}

std::vector<std::string> differences(const Configuration& configuration, const std::vector<GpuState>& gpus,
                                     bool mode_only) {
  std::vector<std::string> all;
  for (const GpuState& gpu : gpus)
    if (const auto text = difference(entry_of(configuration, gpu), gpu, mode_only); !text.empty())
      all.push_back(described(gpu) + text);
  return all;
}

}  // namespace tranche::mig
