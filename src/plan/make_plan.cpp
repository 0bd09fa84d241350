#include "plan/make_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/problem_list.h"
#include "base/text.h"
#include "plan/devices.h"
#include "plan/plan_steps.h"
#include "plan/select.h"
#include "plan/shares.h"
#include "plan/slot_id.h"

namespace tranche::plan {
namespace {

using config::Config;
using config::SharedResource;
using config::SharingStrategy;

PlannedResource undivided(const std::string& name, std::vector<Candidate>& candidates) {
  PlannedResource resource;
  resource.name = resource.original_name = name;
  for (Candidate& candidate : candidates) resource.devices.push_back(std::move(candidate.device));
  return resource;
}

// MIG devices are refused as in NVIDIA's plugin unless the configuration enables MPS on them; a whole GPU that happens
// to have MIG on is omitted, so that the others serve.
void keep_what_mps_serves(const Config& config, const SharedResource& entry, std::vector<Candidate>& candidates,
                          BaseResources& base) {
  const auto mig = std::ranges::find_if(candidates, [](const Candidate& c) { return c.device.is_mig; });
  if (mig != candidates.end() && !config.sharing.mig_devices) {
    return base.problems.push_back(entry_problem(
        config, entry, "name",
        fmt::format("is {}, which holds MIG devices of {}; MPS shares whole GPUs only", entry.name, name_of(*mig->gpu)),
        "share it with sharing.timeSlicing, disable MIG mode, or have MPS serve MIG devices as well "
        "(sharing.mps.migDevices: true)"));
  }
  if (mig != candidates.end() && !one_slot_per_request(config, entry)) {
    base.problems.push_back(
        {Severity::kError, entry.place, "sharing.mps.failRequestsGreaterThanOne",
         fmt::format("is false, but {} holds MIG devices of {}, where a container's own limit cannot be set: the "
                     "driver takes whole GPUs in it, and drops every limit for a name that it does not take",
                     entry.name, name_of(*mig->gpu)),
         "write failRequestsGreaterThanOne: true, so that the daemon's limit is the slot's"});
    return;
  }
  std::erase_if(candidates, [&](const Candidate& candidate) {
    if (candidate.device.is_mig || !candidate.gpu->mig_enabled) return false;
    base.left_out.push_back(
        {name_of(*candidate.gpu),
         config.sharing.mig_devices
             ? "MIG mode is enabled, and MPS serves the MIG devices of such a GPU, not the GPU; write "
               "migStrategy: mixed or single to advertise them"
             : "MIG mode is enabled, and MPS shares whole GPUs only; disable it, or share "
               "with sharing.timeSlicing"});
    return true;
  });
}

// The minimums of a slot for a program to start in it, and requests that exceed a device.
void check_minimums(const Config& config, const SharedResource& entry, const PlannedDevice& device,
                    std::vector<Problem>& problems) {
  const std::string name = fmt::format("GPU {} ({})", device.index, device.uuid);
  const bool one_slot = one_slot_per_request(config, entry);
  const auto say = [&](const char* field, std::string what, std::string remedy) {
    problems.push_back(entry_problem(config, entry, field, std::move(what), std::move(remedy)));
  };
  const Bytes slot = device.share.memory;
  if (device.memory.value != 0 && device.policy.reserve >= device.memory) {
    problems.push_back(
        {Severity::kError, entry.place, "sharing.mps.reserve",
         fmt::format("is {} MiB, and {} has {} MiB", device.policy.reserve.in_mib(), name, device.memory.in_mib()),
         "write a smaller reserve, or none"});
  } else if (slot.value != 0 && slot < kSmallestContext && one_slot) {
    const Bytes all = divisible(device.memory, device.policy.reserve);
    const bool sized = entry.memory.kind == config::MemoryPolicy::Kind::kSize;
    const char* field = sized ? "memory" : entry.slot_memory ? "slotMemory" : "replicas";
    say(field,
        fmt::format("gives a slot of {} {} MiB, and a CUDA context alone takes {} MiB", name, slot.in_mib(),
                    kSmallestContext.in_mib()),
        sized || entry.slot_memory
            ? fmt::format("write {}: {}Mi or more", field, kSmallestContext.in_mib())
            : fmt::format("write replicas: {} or less, or failRequestsGreaterThanOne: false so that a container can "
                          "hold several slots",
                          std::max<std::uint64_t>(1, all.in_mib() / kSmallestContext.in_mib())));
  }
  const config::ThreadsPolicy& threads = device.policy.threads;
  if (threads.kind != config::ThreadsPolicy::Kind::kSms) return;
  if (threads.sms < kFewestSms && one_slot)
    say("threads", fmt::format("asks {} SMs a slot, and the driver gives at least {}", threads.sms, kFewestSms),
        fmt::format("write sms: {} or more", kFewestSms));
  if (device.sm_count != 0 && threads.sms > device.sm_count)
    say("threads", fmt::format("asks {} SMs a slot, and {} has {}", threads.sms, name, device.sm_count),
        fmt::format("write sms: {} or less", device.sm_count));
}

// Problems of the first device of an entry that MPS serves and whose slots are too small, or larger than the device. If
// a container may hold several slots, slots are units, and only a minimum that no number of them reaches is a Problem.
void check_minimums(const Config& config, const Taken& taken, std::vector<Problem>& problems) {
  const std::size_t before = problems.size();
  for (const Candidate& candidate : taken.candidates) {
    check_minimums(config, *taken.entry, candidate.device, problems);
    if (problems.size() > before) return;
  }
}

// What is around an id of less than 128 bytes in kubelet's list: tags, a NUMA node, and "Unhealthy", so that a list
// does not become too long when a GPU fails.
constexpr std::uint64_t kAroundId = 24;

void check_list(const Config& config, const SharedResource& entry, const PlannedResource& resource,
                std::vector<Problem>& problems) {
  std::uint64_t longest = 1;
  for (const PlannedDevice& device : resource.devices)
    longest = std::max(longest, render({device.uuid, device.slots}).size() + kAroundId);
  const std::uint64_t slots = slots_of(resource);
  const std::uint64_t most = kLargestList / longest;
  if (slots <= most) return;
  problems.push_back(entry_problem(
      config, entry, entry.slot_memory ? "slotMemory" : "replicas",
      fmt::format("makes {} slots of {}, and kubelet receives them in one list of at most {} bytes, which "
                  "has room for {}",
                  slots, resource.name, kLargestList, most),
      entry.slot_memory ? "write a larger slotMemory"
                        : fmt::format("write replicas: {} or less", most / resource.devices.size())));
}

// Creates all resources of an entry's devices.
void plan_entry(const Config& config, const gpu::Inventory& inventory, Taken& taken, BaseResources& base,
                Drafts& drafts, std::vector<std::string>& notes) {
  const SharedResource& entry = *taken.entry;
  const bool mps = strategy_of(config, entry) == SharingStrategy::kMps;
  const std::size_t before = base.problems.size();
  if (mps) keep_what_mps_serves(config, entry, taken.candidates, base);
  cut(config, taken, base);
  if (mps) {
    check_client_capacity(config, inventory, taken, base.problems);
    check_minimums(config, taken, base.problems);
    note_larger_slots(taken, notes);
    if (taken.candidates.empty()) return;
  }
  for (PlannedResource& resource : resources_of(config, taken, base.problems)) {
    if (base.problems.size() == before) check_list(config, entry, resource, base.problems);
    drafts.push_back({std::move(resource), &entry});
  }
}

void plan_resource(const Config& config, const gpu::Inventory& inventory, const std::string& name,
                   std::vector<Candidate>& candidates, BaseResources& base, Drafts& drafts,
                   std::vector<std::string>& notes) {
  const bool had_any = !candidates.empty();
  Division division = divide(config, name, std::move(candidates), base.problems, notes);
  const std::size_t before = drafts.size();
  for (Taken& taken : division.entries) plan_entry(config, inventory, taken, base, drafts, notes);
  const bool under_its_name = std::ranges::any_of(drafts.begin() + static_cast<std::ptrdiff_t>(before), drafts.end(),
                                                  [&](const Draft& draft) { return draft.resource.name == name; });
  const bool nothing_left = division.rest.empty() && had_any && drafts.size() == before;
  // Explicit: pods that still request the undivided name see 0 on the node, not a missing resource.
  if (!division.rest.empty() || (!under_its_name && !nothing_left))
    drafts.push_back({undivided(name, division.rest), nullptr});
}

// Two resources of one name would count each other's slots; of two without devices, one is enough.
void merge_names(const Config& config, Drafts& drafts, std::vector<Problem>& problems) {
  std::ranges::stable_sort(drafts, {}, [](const Draft& draft) { return std::string_view(draft.resource.name); });
  for (std::size_t i = 1; i < drafts.size();) {
    Draft& first = drafts[i - 1];
    Draft& second = drafts[i];
    if (first.resource.name != second.resource.name) {
      ++i;
      continue;
    }
    if (!first.resource.devices.empty() && !second.resource.devices.empty()) {
      const Draft& said =
          first.entry == nullptr || (second.entry != nullptr && second.entry->place.line > first.entry->place.line)
              ? second
              : first;
      const Draft& other = &said == &first ? second : first;
      const bool pattern = said.entry != nullptr && !said.entry->names.empty();
      const SharedResource& entry = said.entry != nullptr ? *said.entry : config.sharing.resources.front();
      problems.push_back(entry_problem(
          config, entry, pattern ? "names" : "rename",
          other.entry == nullptr
              ? fmt::format("shared and whole devices would both be named {}", said.resource.name)
              : fmt::format("gives {}, as the entry in line {} does", said.resource.name, other.entry->place.line),
          pattern ? "write another pattern" : "write rename: with a name of its own"));
      ++i;
      continue;
    }
    drafts.erase(drafts.begin() + static_cast<std::ptrdiff_t>(first.resource.devices.empty() ? i - 1 : i));
  }
}

// MPS is a service of the discrete GPUs' driver. Checked before dividing, because Tegra has no GPU to query.
void check_platform_with_mps(const Config& config, const gpu::Inventory& inventory, std::vector<Problem>& problems) {
  if (config.sharing.strategy != SharingStrategy::kMps || inventory.platform == gpu::Platform::kNvml) return;
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

// Every GPU that MPS can serve, without a resource name: the scheduler sees them in ResourceSlices, kubelet not at all.
// MIG devices are for claims of one each, without MPS: into `undivided`.
PlannedResource for_claims(const Config& config, const gpu::Inventory& inventory, BaseResources& base,
                           std::vector<PlannedDevice>& undivided) {
  PlannedResource resource;
  resource.sharing = SharingStrategy::kMps;
  resource.split = config.dra.split;
  if (inventory.platform != gpu::Platform::kNvml) {
    base.left_out.push_back({config.dra.devices == config::DraDevices::kAll ? "every GPU" : "each GPU of dra.devices",
                             fmt::format("dra.devices gives it to claims, and MPS, by which claims get parts of a GPU, "
                                         "is not on this node's platform ({})",
                                         to_string(inventory.platform))});
    return resource;
  }
  for (auto& [name, candidates] : base.by_name) {
    for (Candidate& candidate : candidates) {
      if (candidate.device.is_mig) {
        undivided.push_back(std::move(candidate.device));
        continue;
      }
      candidate.device.policy.reserve = reserve_of(config.sharing.reserve, false);
      candidate.device.policy.rounding = config.sharing.sm_rounding;
      candidate.device.share = share_of(candidate.device, 1);
      resource.devices.push_back(std::move(candidate.device));
    }
  }
  return resource;
}

// The GPUs of claims, or those of the device plugin.
gpu::Inventory part_of(const Config& config, const gpu::Inventory& inventory, bool for_claims) {
  gpu::Inventory part = inventory;
  std::erase_if(part.gpus, [&](const auto& gpu) { return is_for_claims(config.dra, gpu) != for_claims; });
  part.links.clear();  // by place in the list of GPUs
  if (!for_claims || config.dra.devices == config::DraDevices::kAll) return part;
  part.unreadable.clear();  // the other part has them
  part.set_aside.clear();
  return part;
}

void note_listed_without_gpu(const Config& config, const gpu::Inventory& inventory, std::vector<LeftOut>& out) {
  for (const auto& ref : config.dra.listed)
    if (std::ranges::none_of(inventory.gpus, [&](const auto& gpu) { return names_gpu(ref.text, gpu); }))
      out.push_back({"dra.devices " + in_quotes(ref.text), "it names no GPU that the node uses"});
}

}  // namespace

std::expected<Plan, std::vector<Problem>> make_plan(const config::Config& config, const gpu::Inventory& inventory) {
  const bool claims = config.dra.devices != config::DraDevices::kNone;
  const auto of_claims = part_of(config, inventory, true);
  const auto of_plugin = part_of(config, inventory, false);
  BaseResources base;
  if (config.dra.devices != config::DraDevices::kAll) base = base_resources(config, of_plugin);
  check_platform_with_mps(config, inventory, base.problems);
  Plan plan;
  Drafts drafts;
  std::vector<PlannedDevice> undivided;
  if (base.problems.empty() && config.dra.devices != config::DraDevices::kAll) {
    note_entries_without_devices(config, base, plan);
    for (auto& [name, candidates] : base.by_name)
      plan_resource(config, inventory, name, candidates, base, drafts, plan.notes);
    merge_names(config, drafts, base.problems);
  }
  plan.warnings = bounded(std::move(base.problems));
  if (has_error(plan.warnings)) return std::unexpected(std::move(plan.warnings));
  for (const Problem& warning : plan.warnings) plan.notes.push_back(to_string(warning));
  if (claims) {
    // Claims name MIG devices by attributes: whatever the node has is offered, and none needs a resource name.
    Config mixed = config;
    mixed.flags.mig_strategy = config::MigStrategy::kMixed;
    auto offered = base_resources(mixed, of_claims);
    drafts.push_back({for_claims(config, inventory, offered, undivided), nullptr});
    std::ranges::move(offered.left_out, std::back_inserter(base.left_out));
    note_listed_without_gpu(config, inventory, base.left_out);
  }
  plan.pools = make_pools(config, inventory, drafts);
  if (claims) {
    plan.for_claims = std::move(drafts.back().resource.devices);
    drafts.pop_back();
  }
  std::ranges::move(undivided, std::back_inserter(plan.for_claims));
  for (Draft& draft : drafts) plan.resources.push_back(std::move(draft.resource));
  plan.left_out = std::move(base.left_out);
  add_notes(config, inventory, plan);
  bound_notes(plan.notes);
  return plan;
}

}  // namespace tranche::plan
