#include "plan/plan_steps.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/problem.h"
#include "base/text.h"
#include "config/document/amounts.h"
#include "config/names.h"
#include "plan/shares.h"

namespace tranche::plan {
namespace {

using config::Config;
using config::SharedResource;
using config::SharingStrategy;

using Refs = std::vector<config::DeviceRef>;

bool is_uuid(const config::DeviceRef& ref) {
  return ref.text.starts_with("GPU-") || ref.text.starts_with("MIG-");
}

// The devices of one resource, each of which is assigned to one entry or to none. With perDevice: lists first, then
// counts, then the entry for the rest; otherwise the entry gets all devices. Listed devices that the node does not have
// are warnings.
class Division {
 public:
  Division(const Config& config, const std::string& name, std::vector<Candidate> candidates,
           std::vector<Problem>& problems, std::vector<std::string>& notes)
      : config_(config),
        name_(name),
        candidates_(std::move(candidates)),
        owner_(candidates_.size(), nullptr),
        problems_(problems),
        notes_(notes) {
    if (!config.sharing.per_device) {
      take_all();
      return;
    }
    std::vector<const SharedResource*> entries;
    for (const SharedResource& entry : config.sharing.resources)
      if (entry.name == name) entries.push_back(&entry);
    for (const SharedResource* entry : entries)
      if (const auto* refs = std::get_if<Refs>(&entry->devices)) take_listed(*entry, *refs);
    for (const SharedResource* entry : entries)
      if (const auto* count = std::get_if<config::DeviceCount>(&entry->devices)) take_first(*entry, count->count);
    for (const SharedResource* entry : entries)
      if (std::holds_alternative<config::AllDevices>(entry->devices)) take_first(*entry, candidates_.size());
  }

  // Of an entry, or of none, in driver order.
  std::vector<Candidate> of(const SharedResource* entry) const {
    std::vector<Candidate> own;
    for (std::size_t i = 0; i < candidates_.size(); ++i)
      if (owner_[i] == entry) own.push_back(candidates_[i]);
    return own;
  }

 private:
  void take_all() {
    if (config_.sharing.strategy == SharingStrategy::kNone) return;
    const SharedResource* entry = sharing_of(config_, name_);
    if (entry != nullptr && (strategy_of(config_, *entry) == SharingStrategy::kMps || entry->replicas > 1))
      std::ranges::fill(owner_, entry);
  }

  void take_listed(const SharedResource& entry, const Refs& refs) {
    std::size_t found = 0;
    Refs missed;
    for (const auto& ref : refs) {
      const std::size_t before = found;
      for (std::size_t i = 0; i < candidates_.size(); ++i) {
        if (!names_device(ref.text, candidates_[i])) continue;
        ++found;
        claim(entry, i);
      }
      if (found == before) missed.push_back(ref);
    }
    // A list of UUIDs may be written for several nodes; indices are of this node.
    if (found == 0 && !refs.empty() && std::ranges::none_of(refs, is_uuid))
      return report(entry, fmt::format("names no {} of this node, which has {}", name_, all_of_them()),
                    "write indices or UUIDs of devices that are there, or remove the entry");
    // A GPU that is missing after a reboot must not cost the others their slots, and UUIDs may be of other nodes.
    for (const config::DeviceRef& ref : missed) {
      std::string what = fmt::format("has {}, which is not a {} of this node", ref.text, name_);
      if (is_uuid(ref))
        notes_.push_back(to_string(entry.place) + ": devices " + what);
      else
        report(entry, std::move(what) + "; it has " + all_of_them(), "remove it, unless the device comes back",
               Severity::kWarning);
    }
  }

  void claim(const SharedResource& entry, std::size_t i) {
    if (owner_[i] == nullptr || owner_[i] == &entry) {
      owner_[i] = &entry;
      return;
    }
    if (problems_.size() > ProblemList::kMost) return;  // 40,000 references would take 60 ms
    report(entry,
           fmt::format("has {}, which the entry in line {} has as well", name_of(candidates_[i].device),
                       owner_[i]->place.line),
           "write each device in one entry only");
  }

  void take_first(const SharedResource& entry, std::size_t count) {
    const bool counted = std::holds_alternative<config::DeviceCount>(entry.devices);
    std::size_t taken = 0;
    for (std::size_t i = 0; i < candidates_.size() && taken < count; ++i) {
      if (owner_[i] != nullptr) continue;
      owner_[i] = &entry;
      ++taken;
    }
    if (counted && taken == 0)
      return report(
          entry, fmt::format("is {}, but other entries have all {} {} of this node", count, candidates_.size(), name_),
          "remove the entry, or write fewer devices in the others");
    if (counted && taken < count)
      notes_.push_back(
          fmt::format("{}: devices is {}, and {} {} are left for it", to_string(entry.place), count, taken, name_));
    if (!counted && taken == 0 && !candidates_.empty())
      notes_.push_back(fmt::format("{}: other entries have all {} of this node, so nothing is left for this one",
                                   to_string(entry.place), name_));
  }

  void report(const SharedResource& entry, std::string what, std::string remedy, Severity severity = Severity::kError) {
    problems_.push_back(entry_problem(config_, entry, "devices", std::move(what), std::move(remedy), severity));
  }

  std::string all_of_them() const {
    return join(candidates_, ", ", [](const Candidate& candidate) { return candidate.device.index; });
  }

  const Config& config_;
  const std::string& name_;
  std::vector<Candidate> candidates_;
  std::vector<const SharedResource*> owner_;  // of each candidate
  std::vector<Problem>& problems_;
  std::vector<std::string>& notes_;
};

// The device properties that names can contain.
Result<std::string> name_for(const SharedResource& entry, const Candidate& candidate) {
  const PlannedDevice& device = candidate.device;
  config::NameParts parts;
  parts.index = device.index;
  std::ranges::replace(parts.index, ':', '-');
  const Bytes slot = entry.slot_memory.value_or(device.share.memory);
  parts.slot_gib = slot.value >> 30;
  if (candidate.gpu != nullptr) parts.model = candidate.gpu->name;
  if (parts.slot_gib == 0 && entry.names.find("%g") != std::string::npos)
    return fail(Kind::kInvalid, fmt::format("has %g, but a slot of {} has {} MiB, less than one GB",
                                            name_of(candidate.device), slot.in_mib()));
  auto name = config::resource_name(expand(entry.names, parts));
  if (!name) return fail(Kind::kInvalid, fmt::format("gives {} for {}", name.error().what, name_of(candidate.device)));
  return name;
}

std::string where_of(const gpu::Inventory& inventory, const Candidate& candidate) {
  const gpu::Gpu& gpu = *candidate.gpu;
  const auto capability = gpu.compute_capability;
  const int cuda = inventory.cuda_driver_version;
  const std::string device =
      candidate.device.is_mig
          ? fmt::format("{}, a part of {}", name_of(candidate.device), gpu.name)
          : fmt::format("{}, {} {}", name_of(gpu), gpu.name.starts_with("NVIDIA") ? "an" : "a", gpu.name);
  return fmt::format("{} of compute capability {}.{}{}", device, capability.major, capability.minor,
                     cuda == 0 ? "" : fmt::format(" with CUDA {}.{}", cuda / 1000, cuda % 1000 / 10));
}

// What is around an id of less than 128 bytes in kubelet's list: tags, a NUMA node, and "Unhealthy", so that a list
// does not become too long when a GPU fails.
constexpr std::uint64_t kAroundId = 24;

// From one entry with its devices to the resources that advertise them.
class EntryPlan {
 public:
  EntryPlan(const Config& config, const gpu::Inventory& inventory, const SharedResource& entry,
            std::vector<Candidate> candidates, BaseResources& base)
      : config_(config),
        inventory_(inventory),
        entry_(entry),
        candidates_(std::move(candidates)),
        base_(base),
        mps_(strategy_of(config, entry_) == SharingStrategy::kMps),
        one_slot_(one_slot_per_request(config, entry_)) {}

  void make(Drafts& drafts, std::vector<std::string>& notes) {
    const std::size_t before = base_.problems.size();
    if (mps_) keep_what_mps_serves();
    cut();
    if (mps_) {
      check_client_capacity();
      // Of the first device that has any.
      for (const std::size_t none = base_.problems.size(); const Candidate& candidate : candidates_)
        if (base_.problems.size() == none) check_minimums(candidate.device);
      note_larger_slots(entry_, candidates_, notes);
      if (candidates_.empty()) return;
    }
    for (PlannedResource& resource : resources()) {
      if (base_.problems.size() == before) check_list(resource);
      drafts.push_back({std::move(resource), &entry_});
    }
  }

 private:
  void report(std::string_view field, std::string what, std::string remedy) {
    base_.problems.push_back(entry_problem(config_, entry_, field, std::move(what), std::move(remedy)));
  }
  void report_of_section(const char* path, std::string what, std::string remedy) {
    base_.problems.push_back({Severity::kError, entry_.place, path, std::move(what), std::move(remedy)});
  }
  // The setting that makes the number of slots.
  const char* slots_field() const { return entry_.slot_memory ? "slotMemory" : "replicas"; }

  // MIG devices are refused as in NVIDIA's plugin unless the configuration enables MPS on them; a whole GPU that
  // happens to have MIG on is omitted, so that the others serve.
  void keep_what_mps_serves() {
    const auto mig = std::ranges::find_if(candidates_, [](const Candidate& c) { return c.device.is_mig; });
    if (mig != candidates_.end() && !config_.sharing.mig_devices)
      return report("name",
                    fmt::format("is {}, which holds MIG devices of {}; MPS shares whole GPUs only", entry_.name,
                                name_of(*mig->gpu)),
                    "share it with sharing.timeSlicing, disable MIG mode, or have MPS serve MIG devices as well "
                    "(sharing.mps.migDevices: true)");
    if (mig != candidates_.end() && !one_slot_)
      return report_of_section(
          "sharing.mps.failRequestsGreaterThanOne",
          fmt::format("is false, but {} holds MIG devices of {}, where a container's own limit cannot be set: the "
                      "driver takes whole GPUs in it, and drops every limit for a name that it does not take",
                      entry_.name, name_of(*mig->gpu)),
          "write failRequestsGreaterThanOne: true, so that the daemon's limit is the slot's");
    std::erase_if(candidates_, [&](const Candidate& candidate) {
      if (candidate.device.is_mig || !candidate.gpu->mig_enabled) return false;
      base_.left_out.push_back(
          {name_of(*candidate.gpu),
           config_.sharing.mig_devices
               ? "MIG mode is enabled, and MPS serves the MIG devices of such a GPU, not the GPU; write "
                 "migStrategy: mixed or single to advertise them"
               : "MIG mode is enabled, and MPS shares whole GPUs only; disable it, or share with sharing.timeSlicing"});
      return true;
    });
  }

  // Slots, policy and limits of each device; devices without a slot are omitted.
  void cut() {
    std::erase_if(candidates_, [&](Candidate& candidate) {
      PlannedDevice& device = candidate.device;
      device.replicated = true;
      device.slots = entry_.replicas;
      if (!mps_) return false;
      device.policy = {entry_.threads, entry_.memory, reserve_of(config_.sharing.reserve, device.is_mig),
                       config_.sharing.sm_rounding};
      if (entry_.slot_memory) device.slots = slots_of(*entry_.slot_memory, device.memory, device.policy.reserve);
      device.share = share_of(device, 1);
      if (device.slots > 0) return false;
      base_.left_out.push_back(
          {name_of(candidate.device), device.memory.value == 0
                                          ? "slotMemory divides it by its memory, which the driver does not report"
                                          : fmt::format("its {} MiB hold no slot of {}", device.memory.in_mib(),
                                                        config::render_memory_size(*entry_.slot_memory))});
      return true;
    });
  }

  // A Problem for the first device on which the slots need more clients than the server accepts. If a container may
  // hold several slots, slots are units: up to kMostUnits per device, and running clients are counted instead.
  void check_client_capacity() {
    const std::uint32_t each = config_.sharing.processes_per_slot;
    for (const Candidate& candidate : candidates_) {
      const std::uint32_t slots = candidate.device.slots;
      if (!one_slot_ && slots <= kMostUnits) continue;
      if (!one_slot_)
        return too_many(candidate, kMostUnits,
                        fmt::format(", and {} units of a device are the most that can be counted", kMostUnits) +
                            (entry_.slot_memory ? " (" + name_of(*candidate.gpu) + ")" : ""));
      const std::uint32_t most = client_capacity_of(config_, inventory_, *candidate.gpu, candidate.device);
      const std::uint64_t wanted = std::uint64_t{slots} * each;
      if (wanted <= most) continue;
      std::string what;
      if (each > 1) what = fmt::format(", which with processesPerSlot: {} makes {} clients", each, wanted);
      what += config_.sharing.max_clients != 0
                  ? fmt::format(", but sharing.mps.maxClients allows {} on {}", most, name_of(*candidate.gpu))
                  : fmt::format(", but MPS serves at most {} clients on {}", most, where_of(inventory_, candidate));
      std::string more;
      if (each > 1) more += fmt::format(", or processesPerSlot: {} or less", std::max(1u, most / slots));
      if (!entry_.slot_memory && !candidate.device.is_mig && slots <= kMostUnits)
        more += ", or failRequestsGreaterThanOne: false where containers ask for several of these slots";
      return too_many(candidate, most / each, what, more);
    }
  }

  // `what` reads on after "is 49" and "gives 140 slots"; `more`: after the remedy that `most` slots are.
  void too_many(const Candidate& candidate, std::uint32_t most, const std::string& what, const std::string& more = {}) {
    const PlannedDevice& device = candidate.device;
    std::string remedy = "share this device with sharing.timeSlicing";
    if (most >= 2 && !entry_.slot_memory) remedy = fmt::format("write replicas: {} or less", most);
    if (most >= 2 && entry_.slot_memory)
      remedy = fmt::format("write slotMemory: {}Mi or more",
                           (divisible(device.memory, device.policy.reserve).in_mib() + most - 1) / most);
    const auto is =
        entry_.slot_memory ? fmt::format("gives {} slots", device.slots) : fmt::format("is {}", device.slots);
    report(slots_field(), is + what, remedy + more);
  }

  // Problems of slots that are too small for a program to start in one, or larger than the device. If a container may
  // hold several slots, only a minimum that no number of them reaches is a Problem.
  void check_minimums(const PlannedDevice& device) {
    const std::string name = fmt::format("GPU {} ({})", device.index, device.uuid);
    const Bytes slot = device.share.memory;
    if (device.memory.value != 0 && device.policy.reserve >= device.memory) {
      report_of_section(
          "sharing.mps.reserve",
          fmt::format("is {} MiB, and {} has {} MiB", device.policy.reserve.in_mib(), name, device.memory.in_mib()),
          "write a smaller reserve, or none");
    } else if (slot.value != 0 && slot < kSmallestContext && one_slot_) {
      const Bytes all = divisible(device.memory, device.policy.reserve);
      const bool sized = entry_.memory.kind == config::MemoryPolicy::Kind::kSize;
      const char* field = sized ? "memory" : slots_field();
      report(field,
             fmt::format("gives a slot of {} {} MiB, and a CUDA context alone takes {} MiB", name, slot.in_mib(),
                         kSmallestContext.in_mib()),
             sized || entry_.slot_memory
                 ? fmt::format("write {}: {}Mi or more", field, kSmallestContext.in_mib())
                 : fmt::format("write replicas: {} or less, or failRequestsGreaterThanOne: false so that a container "
                               "can hold several slots",
                               std::max<std::uint64_t>(1, all.in_mib() / kSmallestContext.in_mib())));
    }
    const config::ThreadsPolicy& threads = device.policy.threads;
    if (threads.kind != config::ThreadsPolicy::Kind::kSms) return;
    if (threads.sms < kFewestSms && one_slot_)
      report("threads", fmt::format("asks {} SMs a slot, and the driver gives at least {}", threads.sms, kFewestSms),
             fmt::format("write sms: {} or more", kFewestSms));
    if (device.sm_count != 0 && threads.sms > device.sm_count)
      report("threads", fmt::format("asks {} SMs a slot, and {} has {}", threads.sms, name, device.sm_count),
             fmt::format("write sms: {} or less", device.sm_count));
  }

  // One, or with a name pattern one for each of its names.
  std::vector<PlannedResource> resources() {
    std::vector<PlannedResource> resources;
    if (entry_.names.empty()) resources.push_back(resource_named(entry_.rename.value_or(entry_.name)));
    for (const Candidate& candidate : candidates_) {
      auto at = resources.begin();
      if (!entry_.names.empty()) {
        auto name = name_for(entry_, candidate);
        if (!name) {
          report("names", name.error().what, "write for example gpu%d, or larger slots");
          break;
        }
        at = std::ranges::find(resources, *name, &PlannedResource::name);
        if (at == resources.end()) at = resources.insert(at, resource_named(*std::move(name)));
      }
      const PlannedDevice& device = candidate.device;
      at->replicas = at->devices.empty() || at->replicas == device.slots ? device.slots : 0;
      at->devices.push_back(device);
    }
    return resources;
  }

  PlannedResource resource_named(std::string name) const {
    PlannedResource resource;
    resource.original_name = entry_.name;
    resource.name = std::move(name);
    resource.sharing = strategy_of(config_, entry_);
    resource.replicas = entry_.replicas;
    resource.one_slot_per_request = one_slot_;
    resource.split = entry_.split;
    resource.guard_memory = guard_memory_of(config_, entry_);
    return resource;
  }

  void check_list(const PlannedResource& resource) {
    const std::uint64_t slots = slots_of(resource);
    std::uint64_t longest = 1;
    for (const PlannedDevice& device : resource.devices)
      longest = std::max(longest, render({device.uuid, device.slots}).size() + kAroundId);
    const std::uint64_t most = kLargestList / longest;
    if (slots <= most) return;
    report(slots_field(),
           fmt::format("makes {} slots of {}, and kubelet receives them in one list of at most {} bytes, which has "
                       "room for {}",
                       slots, resource.name, kLargestList, most),
           entry_.slot_memory ? "write a larger slotMemory"
                              : fmt::format("write replicas: {} or less", most / resource.devices.size()));
  }

  const Config& config_;
  const gpu::Inventory& inventory_;
  const SharedResource& entry_;
  std::vector<Candidate> candidates_;
  BaseResources& base_;
  const bool mps_, one_slot_;
};

PlannedResource undivided(const std::string& name, std::vector<Candidate>& candidates) {
  PlannedResource resource;
  resource.name = resource.original_name = name;
  for (Candidate& candidate : candidates) resource.devices.push_back(std::move(candidate.device));
  return resource;
}

}  // namespace

Problem entry_problem(const Config& config, const SharedResource& entry, std::string_view field, std::string what,
                      std::string remedy, Severity severity) {
  const SharingStrategy strategy = strategy_of(config, entry);
  const auto end = &entry - config.sharing.resources.data();
  const auto at = std::ranges::count_if(config.sharing.resources.begin(), config.sharing.resources.begin() + end,
                                        [&](const auto& other) { return strategy_of(config, other) == strategy; });
  const char* section = strategy == SharingStrategy::kMps ? "mps" : "timeSlicing";
  return {severity, entry.place, fmt::format("sharing.{}.resources[{}].{}", section, at, field), std::move(what),
          std::move(remedy)};
}

void plan_resource(const Config& config, const gpu::Inventory& inventory, const std::string& name,
                   std::vector<Candidate>& candidates, BaseResources& base, Drafts& drafts,
                   std::vector<std::string>& notes) {
  const Division division(config, name, std::move(candidates), base.problems, notes);
  const std::size_t before = drafts.size();
  for (const SharedResource& entry : config.sharing.resources)
    if (auto own = division.of(&entry); !own.empty())
      EntryPlan(config, inventory, entry, std::move(own), base).make(drafts, notes);
  auto rest = division.of(nullptr);
  const bool under_its_name = std::ranges::any_of(drafts.begin() + static_cast<std::ptrdiff_t>(before), drafts.end(),
                                                  [&](const Draft& draft) { return draft.resource.name == name; });
  // Explicit: pods that still request the undivided name see 0 on the node, not a missing resource.
  if (!rest.empty() || (!under_its_name && drafts.size() > before)) drafts.push_back({undivided(name, rest), nullptr});
}

}  // namespace tranche::plan
