#include "mig/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace tranche::mig {
namespace {

std::string described(const GpuState& gpu) {
  return fmt::format("GPU {} ({})", gpu.index, gpu.name);
}

std::string compute_name(const std::vector<Profile>& profiles, std::uint32_t profile_id, std::uint32_t slices) {
  const Profile* profile = find_profile(profiles, profile_id);
  const std::string name = profile_name(profiles, profile_id);
  return profile == nullptr || slices >= profile->slices ? name : fmt::format("{}c.{}", slices, name);
}

// Builds the steps of one GPU.
class Steps {
 public:
  Steps(const GpuState& gpu, GpuPlan& plan) : gpu_(gpu), plan_(plan) {}

  void destroy(const GpuInstance& instance, const std::string& why) {
    for (const auto& compute : instance.compute) destroy_compute(instance, compute, why);
    plan_.steps.push_back({.what = Step::What::kDestroyInstance,
                           .instance = instance.id,
                           .profile_id = instance.profile_id,
                           .profile = profile_name(gpu_.profiles, instance.profile_id),
                           .placement = instance.placement,
                           .why = why});
    plan_.goes.push_back(instance);
    if (instance.busy()) block(instance);
  }

  void destroy_compute(const GpuInstance& instance, const ComputeInstance& compute, const std::string& why) {
    plan_.steps.push_back({.what = Step::What::kDestroyCompute,
                           .instance = instance.id,
                           .compute = compute.id,
                           .profile_id = instance.profile_id,
                           .profile = compute_name(gpu_.profiles, instance.profile_id, compute.placement.size),
                           .placement = instance.placement,
                           .compute_placement = compute.placement,
                           .why = why});
  }

  void block(const GpuInstance& instance) {
    plan_.blockers.push_back(
        {fmt::format("{} at {}", profile_name(gpu_.profiles, instance.profile_id), to_string(instance.placement)),
         instance.holders});
  }
  void block_gpu() {
    if (!gpu_.holders.empty()) plan_.blockers.push_back({"the whole GPU", gpu_.holders});
  }

  void mode(bool on) {
    const bool resets = mode_change_of(gpu_.compute_capability) == ModeChange::kReset;
    // A pending mode that is the wanted one has been set already: only the reset is missing.
    if (gpu_.pending != on)
      plan_.steps.push_back(
          {.what = on ? Step::What::kModeOn : Step::What::kModeOff, .why = "the configuration asks for it"});
    if (gpu_.enabled == on) return;  // only the pending mode was different
    plan_.needs_reset = resets || gpu_.pending == on;
    if (resets) {
      plan_.mode_why =
          "GPUs of the Ampere generation change the MIG mode at a reset: of this GPU with no process on it, or of the "
          "machine";
    } else if (plan_.needs_reset) {
      plan_.mode_why = "the mode was set and the driver waits for a reset of the GPU or of the virtual machine";
    } else {
      plan_.mode_why = "the MIG mode changes at once when no process holds the GPU";
    }
    if (plan_.needs_reset) plan_.steps.push_back({.what = Step::What::kReset, .why = plan_.mode_why});
    block_gpu();
  }

  void create(const Layout& layout) {
    std::vector<const Part*> parts;
    for (const Part& part : layout.parts) parts.push_back(&part);
    // The largest first, so that a driver that places instances by itself would agree.
    std::ranges::stable_sort(parts, [](const Part* a, const Part* b) { return a->placement.size > b->placement.size; });
    for (const Part* part : parts) {
      if (!part->kept)
        plan_.steps.push_back({.what = Step::What::kCreateInstance,
                               .profile_id = part->profile_id,
                               .profile = profile_name(gpu_.profiles, part->profile_id),
                               .placement = part->placement,
                               .why = "the configuration asks for it"});
      for (const Placement& at : part->compute) {
        if (is_kept(*part, at)) continue;
        plan_.steps.push_back(
            {.what = Step::What::kCreateCompute,
             .instance = part->kept,
             .profile_id = part->profile_id,
             .profile = compute_name(gpu_.profiles, part->profile_id, at.size),
             .placement = part->placement,
             .compute_placement = at,
             .why = part->kept ? "the instance stays and lacks it" : "the configuration asks for it"});
      }
    }
  }

  const GpuInstance* instance(std::uint32_t id) const {
    const auto found = std::ranges::find(gpu_.instances, id, &GpuInstance::id);
    return found == gpu_.instances.end() ? nullptr : &*found;
  }

 private:
  bool is_kept(const Part& part, const Placement& at) const {
    const GpuInstance* present = part.kept ? instance(*part.kept) : nullptr;
    const Profile* profile = find_profile(gpu_.profiles, part.profile_id);
    return present != nullptr && std::ranges::any_of(present->compute, [&](const ComputeInstance& compute) {
             return std::ranges::find(part.kept_compute, compute.id) != part.kept_compute.end() &&
                    compute.placement.start == at.start && std::min(compute.placement.size, profile->slices) == at.size;
           });
  }

  const GpuState& gpu_;
  GpuPlan& plan_;
};

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

void plan_instances(const Entry& entry, const GpuState& gpu, GpuPlan& plan, std::vector<Problem>& problems) {
  const auto layout =
      choose_layout(gpu.profiles, plan.wanted, gpu.enabled ? gpu.instances : std::vector<GpuInstance>{});
  if (!layout) {
    problems.push_back({Severity::kError, entry.place, "mig-devices",
                        fmt::format("{}: {}", described(gpu), layout.error().what), layout.error().remedy});
    return;
  }
  plan.parts = layout->parts;
  Steps steps(gpu, plan);
  const auto part_of = [&](const GpuInstance& instance) {
    return std::ranges::find(layout->parts, std::optional(instance.id), &Part::kept);
  };
  if (gpu.enabled) {
    for (const auto& instance : gpu.instances)
      if (part_of(instance) == layout->parts.end()) steps.destroy(instance, "the configuration has no place for it");
    for (const auto& instance : gpu.instances) {
      const auto part = part_of(instance);
      if (part == layout->parts.end()) continue;
      bool held = false;
      for (const auto& compute : instance.compute) {
        if (std::ranges::find(part->kept_compute, compute.id) != part->kept_compute.end()) continue;
        steps.destroy_compute(instance, compute, "the configuration divides the instance differently");
        held |= compute.held || instance.held;
      }
      if (held) steps.block(instance);
    }
  }
  steps.mode(true);
  steps.create(*layout);
  if (!plan.blockers.empty() && gpu.enabled)
    plan.fits_beside = to_string(largest_beside(gpu.profiles, plan.wanted, gpu.instances));
}

}  // namespace

std::string to_string(const Step& step) {
  switch (step.what) {
    case Step::What::kDestroyCompute:
      return fmt::format("destroy compute instance {} ({}) of GPU instance {}", step.compute.value_or(0), step.profile,
                         step.instance.value_or(0));
    case Step::What::kDestroyInstance:
      return fmt::format("destroy GPU instance {} ({} at {})", step.instance.value_or(0), step.profile,
                         to_string(step.placement));
    case Step::What::kModeOn:
      return "turn MIG on";
    case Step::What::kModeOff:
      return "turn MIG off";
    case Step::What::kReset:
      return "reset the GPU";
    case Step::What::kCreateInstance:
      return fmt::format("create {} at {}", step.profile, to_string(step.placement));
    case Step::What::kCreateCompute:
      return fmt::format("create compute instance {} at {} of {}", step.profile, to_string(step.compute_placement),
                         step.instance ? fmt::format("GPU instance {}", *step.instance) : "it");
  }
  return "unknown";
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

const Entry* entry_of(const Configuration& configuration, const GpuState& gpu) {
  const Entry* found = nullptr;
  for (const Entry& entry : configuration.entries)
    if (entry.names(gpu.index, gpu.pci_device_id, gpu.pci_subsystem_id)) found = &entry;
  return found;
}

GpuPlan plan_gpu(const Entry& entry, const GpuState& gpu, std::vector<Problem>& problems, const PlanOptions& options) {
  GpuPlan plan;
  plan.index = gpu.index;
  plan.uuid = gpu.uuid;
  plan.name = gpu.name;
  plan.matched = true;
  plan.mode_from = plan.mode_to = gpu.enabled;
  plan.profiles = gpu.profiles;
  if (!gpu.capable) {
    // As mig-parted: "all" passes over GPUs without MIG, an index does not.
    if (entry.enabled && entry.devices) {
      problems.push_back({Severity::kError, entry.place, "devices", described(gpu) + " does not support MIG",
                          fmt::format("remove {} from devices", gpu.index)});
    } else {
      plan.matched = !entry.enabled;
    }
    plan.as_wanted = true;
    return plan;
  }
  plan.mode_to = entry.enabled;
  Steps steps(gpu, plan);
  if (!entry.enabled) {
    if (gpu.enabled)
      for (const auto& instance : gpu.instances) steps.destroy(instance, "MIG goes off");
    if (gpu.enabled || gpu.pending) steps.mode(false);
  } else if (options.mode_only) {
    if (!gpu.enabled || !gpu.pending) steps.mode(true);
  } else if (auto wanted = resolved(entry, gpu, problems)) {
    plan.wanted = *std::move(wanted);
    plan_instances(entry, gpu, plan, problems);
  }
  plan.as_wanted = plan.steps.empty();
  return plan;
}

Plan make_plan(const Configuration& configuration, const std::vector<GpuState>& gpus, const PlanOptions& options) {
  Plan plan;
  plan.configuration = configuration.name;
  for (const GpuState& gpu : gpus) {
    if (const Entry* entry = entry_of(configuration, gpu)) {
      plan.gpus.push_back(plan_gpu(*entry, gpu, plan.problems, options));
      continue;
    }
    GpuPlan left;
    left.index = gpu.index;
    left.uuid = gpu.uuid;
    left.name = gpu.name;
    left.mode_from = left.mode_to = gpu.enabled;
    left.profiles = gpu.profiles;
    plan.gpus.push_back(std::move(left));
  }
  for (const Entry& entry : configuration.entries) {
    if (!entry.devices) continue;
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
