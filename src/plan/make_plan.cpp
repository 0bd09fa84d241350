#include "plan/make_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "plan/devices.h"
#include "plan/notes.h"
#include "plan/pools.h"
#include "plan/shares.h"

namespace tranche::plan {
namespace {

using config::Config;
using config::SharedResource;
using config::SharingStrategy;

std::string entry_path(const Config& config, const SharedResource& entry, std::string_view field) {
  const auto at = &entry - config.sharing.resources.data();
  const char* section = config.sharing.strategy == SharingStrategy::kMps ? "mps" : "timeSlicing";
  return fmt::format("sharing.{}.resources[{}].{}", section, at, field);
}

PlannedResource undivided(const std::string& name, std::vector<Candidate>& candidates) {
  PlannedResource resource;
  resource.name = resource.original_name = name;
  for (Candidate& candidate : candidates) resource.devices.push_back(std::move(candidate.device));
  return resource;
}

// NVIDIA's control daemon ends for a device with more replicas than the driver takes clients.
void check_replicas(const Config& config, const SharedResource& entry, const std::vector<Candidate>& candidates,
                    std::vector<Problem>& problems) {
  for (const Candidate& candidate : candidates) {
    const auto capability = candidate.gpu->compute_capability;
    if (entry.replicas <= max_clients(capability)) continue;
    problems.push_back({Severity::kError, entry.place, entry_path(config, entry, "replicas"),
                        fmt::format("is {}, but MPS serves at most {} clients on {}, a {} of compute capability {}.{}",
                                    entry.replicas, max_clients(capability), name_of(*candidate.gpu),
                                    candidate.gpu->name, capability.major, capability.minor),
                        fmt::format("write replicas: {} or less", max_clients(capability))});
    return;
  }
}

// What MPS cannot serve: MIG devices are refused as NVIDIA refuses them; a whole GPU that happens to have MIG on is
// left out, so that the others serve.
void keep_what_mps_serves(const Config& config, const SharedResource& entry, std::vector<Candidate>& candidates,
                          BaseResources& base) {
  if (const auto mig = std::ranges::find_if(candidates, [](const Candidate& c) { return c.device.is_mig; });
      mig != candidates.end()) {
    base.problems.push_back({Severity::kError, entry.place, entry_path(config, entry, "name"),
                             fmt::format("is {}, which holds MIG devices of {}; MPS shares whole GPUs only", entry.name,
                                         name_of(*mig->gpu)),
                             "share it with sharing.timeSlicing, or turn MIG off"});
    return;
  }
  std::erase_if(candidates, [&](const Candidate& candidate) {
    if (!candidate.gpu->mig_enabled) return false;
    base.left_out.push_back({name_of(*candidate.gpu),
                             "MIG is on, and MPS shares whole GPUs only; turn MIG off on it, or share "
                             "with sharing.timeSlicing"});
    return true;
  });
}

PlannedResource divided(const Config& config, const SharedResource& entry, std::vector<Candidate>& candidates) {
  PlannedResource resource;
  resource.original_name = entry.name;
  resource.name = entry.rename.value_or(entry.name);
  resource.sharing = config.sharing.strategy;
  resource.replicas = entry.replicas;
  resource.one_slot_per_request = config.sharing.fail_requests_greater_than_one;
  for (Candidate& candidate : candidates) {
    PlannedDevice& device = candidate.device;
    device.replicated = true;
    device.slots = entry.replicas;
    if (resource.sharing == SharingStrategy::kMps)
      device.share = share_of(device.memory, device.sm_count, candidate.gpu->compute_capability, 1, device.slots,
                              config.sharing.sm_rounding);
    resource.devices.push_back(std::move(device));
  }
  return resource;
}

void plan_resource(const Config& config, const std::string& name, std::vector<Candidate>& candidates,
                   BaseResources& base, Plan& plan) {
  const SharedResource* entry = config.sharing.strategy == SharingStrategy::kNone ? nullptr : sharing_of(config, name);
  if (entry == nullptr || entry->replicas < 2) {
    plan.resources.push_back(undivided(name, candidates));
    return;
  }
  if (config.sharing.strategy == SharingStrategy::kMps) {
    keep_what_mps_serves(config, *entry, candidates, base);
    check_replicas(config, *entry, candidates, base.problems);
    if (candidates.empty()) return;
  }
  plan.resources.push_back(divided(config, *entry, candidates));
  if (plan.resources.back().name == name) return;
  // Said outright: whoever still asks for the undivided name sees 0 on the node, not nothing.
  std::vector<Candidate> nothing;
  plan.resources.push_back(undivided(name, nothing));
}

void check_mig_with_mps(const Config& config, std::vector<Problem>& problems) {
  if (config.sharing.strategy != SharingStrategy::kMps || config.flags.mig_strategy != config::MigStrategy::kMixed)
    return;
  problems.push_back({Severity::kError,
                      {},
                      "flags.migStrategy",
                      "is mixed, which does not go with sharing.mps",
                      "write migStrategy: none, or share with sharing.timeSlicing"});
}

// MPS is a service of the discrete GPUs' driver. Checked before anything is divided, for Tegra has no GPU to ask.
void check_platform_with_mps(const Config& config, const inventory::Inventory& inventory,
                             std::vector<Problem>& problems) {
  if (config.sharing.strategy != SharingStrategy::kMps || inventory.platform == inventory::Platform::kNvml) return;
  const Place place = config.sharing.resources.empty() ? Place{} : config.sharing.resources.front().place;
  problems.push_back({Severity::kError, place, "sharing.mps",
                      fmt::format("asks for MPS, which there is none of on this node (its platform is {})",
                                  to_string(inventory.platform)),
                      "share with sharing.timeSlicing on this node"});
}

void note_entries_without_devices(const Config& config, const BaseResources& base, Plan& plan) {
  if (config.sharing.strategy == SharingStrategy::kNone) return;
  for (const SharedResource& entry : config.sharing.resources)
    if (!base.by_name.contains(entry.name))
      plan.notes.push_back(fmt::format("{}: the node has no {}, so there is nothing to share under that name",
                                       to_string(entry.place), entry.name));
}

}  // namespace

std::expected<Plan, std::vector<Problem>> make_plan(const config::Config& config,
                                                    const inventory::Inventory& inventory) {
  BaseResources base = base_resources(config, inventory);
  check_mig_with_mps(config, base.problems);
  check_platform_with_mps(config, inventory, base.problems);
  Plan plan;
  if (base.problems.empty()) {
    note_entries_without_devices(config, base, plan);
    for (auto& [name, candidates] : base.by_name) plan_resource(config, name, candidates, base, plan);
  }
  if (!base.problems.empty()) return std::unexpected(std::move(base.problems));
  std::ranges::sort(plan.resources, {}, &PlannedResource::name);
  plan.pools = make_pools(config, inventory, plan.resources);
  plan.left_out = std::move(base.left_out);
  add_notes(config, inventory, plan);
  return plan;
}

}  // namespace tranche::plan
