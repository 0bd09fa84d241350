#include <map>

#include "base/text.h"
#include "config/field.h"
#include "config/parse/sections.h"

namespace tranche::config {
namespace {

void warn_of_repeats(const std::vector<SharedResource>& resources, const Value& list) {
  std::map<std::string, const SharedResource*> last;
  for (const auto& resource : resources) {
    const SharedResource*& slot = last[resource.name];
    if (slot != nullptr)
      Value(&list.node(), list.path(), slot->place, list.findings())
          .warn("names " + resource.name + " here and again in line " + std::to_string(resource.place.line) +
                    ", and only the last one counts",
                "remove one of the two");
    slot = &resource;
  }
}

// With perDevice, entries divide the devices of a name among them: only one of them can have a listed device, and those
// that no other names. An index and a UUID of one GPU are compared where the GPUs are known.
void refuse_two_owners(const std::vector<SharedResource>& resources, const Value& section) {
  std::map<std::pair<std::string, std::string>, const SharedResource*> owners;  // by name and device; "" = the rest
  const auto is_taken = [&](const SharedResource& entry, const std::string& device) {
    const SharedResource* owner = owners.try_emplace({entry.name, device}, &entry).first->second;
    if (owner == &entry) return false;
    const std::string what = device.empty() ? "shares all devices of " + entry.name : "has device " + device;
    Value(&section.node(), section.path(), entry.place, section.findings())
        .error(what + ", as the entry in line " + std::to_string(owner->place.line) + " does",
               device.empty() ? "write in one of the two which devices are meant: devices: [0, 1]"
                              : "write each device in one entry only");
    return true;
  };
  for (const auto& entry : resources) {
    if (std::holds_alternative<AllDevices>(entry.devices)) is_taken(entry, "");
    if (const auto* listed = std::get_if<std::vector<DeviceRef>>(&entry.devices))
      for (const DeviceRef& device : *listed)
        if (is_taken(entry, device.text)) break;
  }
}

// renameByDefault, failRequestsGreaterThanOne and resources of one section.
void parse_section(const Value& section, const Fields& f, EntryRules rules, bool needs_resources, Sharing& sharing) {
  sharing.fail_requests_greater_than_one = sharing.strategy == SharingStrategy::kMps;
  f["renameByDefault"].read(sharing.rename_by_default);
  f["failRequestsGreaterThanOne"].read(sharing.fail_requests_greater_than_one);
  if (!sharing.fail_requests_greater_than_one) rules.most_slots = kMostSlots;
  const Value list = f["resources"];
  const char* remedy = "write resources: [{name: nvidia.com/gpu, replicas: 4}]";
  const bool empty = !list.given() || (list.node().kind == Node::Kind::kSequence && list.node().items.empty());
  if (empty && needs_resources) {
    (list.absent() ? section : list).error("no resources specified", remedy);
  } else if (!empty && list.node().kind != Node::Kind::kSequence) {
    list.wrong_type("a list", remedy);
  } else if (!empty) {
    for (const Value& item : list.entries()) {
      if (section.findings().problems.over()) break;
      if (auto entry = parse_entry(item, rules)) sharing.resources.push_back(*std::move(entry));
    }
    if (!sharing.per_device) warn_of_repeats(sharing.resources, list);
  }
}

std::optional<Sharing> parse_time_slicing(const Value& section, bool per_device) {
  if (section.absent()) return std::nullopt;
  const char* remedy = "write resources: [{name: nvidia.com/gpu, replicas: 4}] below it, or remove it";
  if (section.null()) return section.refused("has nothing below it, so that it shares nothing", remedy);
  if (!is_mapping(section, remedy)) return std::nullopt;
  const Fields f(section);
  Sharing sharing;
  sharing.strategy = SharingStrategy::kTimeSlicing;
  sharing.per_device = per_device;
  parse_section(section, f, {sharing}, true, sharing);
  return sharing;
}

// A fork's switch: without it, that fork sets no memory limit.
void read_enable_memory_limit(const Fields& f, MemoryPolicy& into) {
  const Value value = f["enableMemoryLimit"];
  if (!value.given()) return;
  const auto on = value.boolean();
  if (!on) return;
  if (f["memory"].given()) return value.ignored("has no effect beside memory", "remove it");
  if (*on) return;
  into = {.kind = MemoryPolicy::Kind::kOpen};
  value.warn("is a fork's word for memory: open, under which a container can take all of a GPU's memory",
             "write memory: open if that is meant, or remove it");
}

std::optional<Sharing> parse_mps(const Value& section, const Individual& individual, bool per_device) {
  if (!is_mapping(section, "write resources: [{name: nvidia.com/gpu, replicas: 4}] below it")) return std::nullopt;
  const Fields f(section);
  Target target;
  read_settings(f, target);
  Sharing& sharing = target.config.sharing;
  sharing.strategy = SharingStrategy::kMps;
  sharing.per_device = per_device;
  read_enable_memory_limit(f, sharing.memory);
  EntryRules rules{sharing};
  read_split(f["split"], rules.split);
  if (!individual.enabled)
    rules.most_slots =
        (sharing.max_clients != 0 ? sharing.max_clients : kMostClientsOfDrivers) / sharing.processes_per_slot;
  parse_section(section, f, rules, !individual.enabled || individual.gpus.empty(), sharing);
  if (individual.enabled) apply_individual(individual, f["failRequestsGreaterThanOne"], rules.split, sharing);
  return sharing;
}

// With perDevice both sections are in effect: the MPS entries first, then the others.
Sharing side_by_side(Sharing mps, Sharing time_slicing) {
  mps.one_time_slice = time_slicing.fail_requests_greater_than_one;
  for (SharedResource& entry : time_slicing.resources) mps.resources.push_back(std::move(entry));
  return mps;
}

}  // namespace

void parse_sharing(const Value& section, const Individual& individual, Sharing& sharing) {
  const Fields f(section);
  bool per_device = false;
  f["perDevice"].read(per_device);
  per_device = per_device || individual.enabled;
  auto time_slicing = parse_time_slicing(f["timeSlicing"], per_device);
  auto mps = parse_mps(f["mps"], individual, per_device);
  if (mps && time_slicing && !per_device)
    f["timeSlicing"].warn("is ignored, because sharing.mps is given as well and MPS wins", "remove one of the two");
  if (mps && time_slicing && per_device)
    sharing = side_by_side(*std::move(mps), *std::move(time_slicing));
  else if (mps)
    sharing = *std::move(mps);
  else if (time_slicing)
    sharing = *std::move(time_slicing);
  else if (f["timeSlicing"].absent() && !f["mps"].given() && !section.node().members.empty())
    section.error("has neither timeSlicing nor mps with a value, so that every GPU stays whole",
                  "write one of them with resources: below it, or sharing: {} if whole GPUs are meant");
  sharing.per_device = per_device;
  if (per_device) refuse_two_owners(sharing.resources, section);
}

}  // namespace tranche::config
