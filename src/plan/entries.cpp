#include "plan/plan_steps.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/problem_list.h"
#include "base/text.h"
#include "config/names.h"
#include "plan/select.h"
#include "plan/shares.h"

namespace tranche::plan {
namespace {

using config::Config;
using config::SharedResource;
using config::SharingStrategy;

using Refs = std::vector<config::DeviceRef>;

std::string device_name(const Candidate& candidate) {
  const char* kind = candidate.device.is_mig ? "MIG device" : "GPU";
  return fmt::format("{} {} ({})", kind, candidate.device.index, candidate.device.uuid);
}

bool is_uuid(const config::DeviceRef& ref) {
  return ref.text.starts_with("GPU-") || ref.text.starts_with("MIG-");
}

// The devices of one resource, each of which is assigned to one entry or to none.
class Dividing {
 public:
  Dividing(const Config& config, const std::string& name, std::vector<Candidate> candidates,
           std::vector<Problem>& problems, std::vector<std::string>& notes)
      : config_(config),
        name_(name),
        candidates_(std::move(candidates)),
        owner_(candidates_.size(), nullptr),
        problems_(problems),
        notes_(notes) {}

  Division run() {
    std::vector<const SharedResource*> entries;
    for (const SharedResource& entry : config_.sharing.resources)
      if (entry.name == name_) entries.push_back(&entry);
    for (const SharedResource* entry : entries)
      if (const auto* refs = std::get_if<Refs>(&entry->devices)) take_listed(*entry, *refs);
    for (const SharedResource* entry : entries)
      if (const auto* count = std::get_if<config::DeviceCount>(&entry->devices)) take_first(*entry, count->count);
    for (const SharedResource* entry : entries)
      if (std::holds_alternative<config::AllDevices>(entry->devices)) take_first(*entry, candidates_.size());
    Division division;
    for (const SharedResource* entry : entries) hand_over(*entry, division);
    for (std::size_t i = 0; i < candidates_.size(); ++i)
      if (owner_[i] == nullptr) division.rest.push_back(std::move(candidates_[i]));
    return division;
  }

 private:
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
           fmt::format("has {}, which the entry in line {} has as well", device_name(candidates_[i]),
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

  void hand_over(const SharedResource& entry, Division& division) {
    Taken taken{&entry, {}};
    for (std::size_t i = 0; i < candidates_.size(); ++i)
      if (owner_[i] == &entry) taken.candidates.push_back(std::move(candidates_[i]));
    if (!taken.candidates.empty()) division.entries.push_back(std::move(taken));
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
                                            device_name(candidate), slot.in_mib()));
  auto name = config::resource_name(expand(entry.names, parts));
  if (!name) return fail(Kind::kInvalid, fmt::format("gives {} for {}", name.error().what, device_name(candidate)));
  return name;
}

PlannedResource resource_for(const Config& config, const SharedResource& entry, std::string name) {
  PlannedResource resource;
  resource.original_name = entry.name;
  resource.name = std::move(name);
  resource.sharing = strategy_of(config, entry);
  resource.replicas = entry.replicas;
  resource.one_slot_per_request = one_slot_per_request(config, entry);
  resource.split = entry.split;
  resource.guard_memory = guard_memory_of(config, entry);
  return resource;
}

void add_device(PlannedResource& resource, const PlannedDevice& device) {
  resource.replicas = resource.devices.empty() || resource.replicas == device.slots ? device.slots : 0;
  resource.devices.push_back(device);
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

Division divide(const Config& config, const std::string& name, std::vector<Candidate> candidates,
                std::vector<Problem>& problems, std::vector<std::string>& notes) {
  if (config.sharing.per_device) return Dividing(config, name, std::move(candidates), problems, notes).run();
  const SharedResource* entry = config.sharing.strategy == SharingStrategy::kNone ? nullptr : sharing_of(config, name);
  const bool counts = entry != nullptr && (strategy_of(config, *entry) == SharingStrategy::kMps || entry->replicas > 1);
  if (!counts) return {{}, std::move(candidates)};
  Division division;
  division.entries.push_back({entry, std::move(candidates)});
  return division;
}

void cut(const Config& config, Taken& taken, BaseResources& base) {
  const SharedResource& entry = *taken.entry;
  const bool mps = strategy_of(config, entry) == SharingStrategy::kMps;
  std::erase_if(taken.candidates, [&](Candidate& candidate) {
    PlannedDevice& device = candidate.device;
    device.replicated = true;
    device.slots = entry.replicas;
    if (!mps) return false;
    device.policy = {entry.threads, entry.memory, reserve_of(config.sharing.reserve, device.is_mig),
                     config.sharing.sm_rounding};
    if (entry.slot_memory) device.slots = slots_of(*entry.slot_memory, device.memory, device.policy.reserve);
    device.share = share_of(device, 1);
    if (device.slots > 0) return false;
    base.left_out.push_back(
        {device_name(candidate), device.memory.value == 0
                                     ? "slotMemory divides it by its memory, which the driver does not report"
                                     : fmt::format("its {} MiB hold no slot of {}", device.memory.in_mib(),
                                                   config::to_string(config::MemoryPolicy{
                                                       config::MemoryPolicy::Kind::kSize, 100, *entry.slot_memory}))});
    return true;
  });
}

std::vector<PlannedResource> resources_of(const Config& config, const Taken& taken, std::vector<Problem>& problems) {
  const SharedResource& entry = *taken.entry;
  std::vector<PlannedResource> resources;
  if (entry.names.empty()) {
    resources.push_back(resource_for(config, entry, entry.rename.value_or(entry.name)));
    for (const Candidate& candidate : taken.candidates) add_device(resources.back(), candidate.device);
    return resources;
  }
  for (const Candidate& candidate : taken.candidates) {
    auto name = name_for(entry, candidate);
    if (!name) {
      problems.push_back(
          entry_problem(config, entry, "names", name.error().what, "write for example gpu%d, or larger slots"));
      break;
    }
    auto at = std::ranges::find(resources, *name, &PlannedResource::name);
    if (at == resources.end()) {
      resources.push_back(resource_for(config, entry, *std::move(name)));
      at = resources.end() - 1;
    }
    add_device(*at, candidate.device);
  }
  return resources;
}

}  // namespace tranche::plan
