#include <algorithm>
#include <map>

#include "base/text.h"
#include "config/document/amounts.h"
#include "config/field.h"
#include "config/keys.h"
#include "config/names.h"

namespace tranche::config {
namespace {

// A fork's `individualGPU`: a resource per GPU, written beside `sharing`. Its supported settings are converted to
// entries of this format, and settings without effect (there or here) cause a warning.
struct IndividualGpu {
  SharedResource entry;                  // without what it has of sharing.mps
  std::optional<MemoryPolicy> memory{};  // absent: that of sharing.mps
};
struct Individual {
  bool enabled = false;
  std::string pattern = "nvidia.com/gpu%d";
  std::vector<IndividualGpu> gpus;  // those that MPS serves
};

constexpr std::int64_t kMostMib = 1'000'000'000;
constexpr const char* kGpu = "nvidia.com/gpu";

// A whole number from 1; absent if it is missing or wrong.
std::optional<std::int64_t> counted(const Value& value, std::int64_t most, const char* remedy) {
  return value.given() ? value.integer(1, most, remedy) : std::nullopt;
}

// The MPS part of a GPU's entry; false if MPS does not serve the GPU.
bool parse_mps_of_gpu(const Value& section, IndividualGpu& into) {
  if (!is_mapping(section, "write mps: {enabled: true, replicas: 20}")) return false;
  const Fields f(section);
  bool enabled = false;
  f["enabled"].read(enabled);
  if (const auto count = counted(f["replicas"], kMostSlots, "write into how many slots the GPU is cut"))
    into.entry.replicas = static_cast<std::uint32_t>(*count);
  bool limited = true;
  f["enableMemoryLimit"].read(limited);
  if (!limited) into.memory = {.kind = MemoryPolicy::Kind::kOpen};
  if (const auto size = counted(f["pinnedMemoryLimit"], kMostMib, "write the MiB of one slot, or remove it"))
    into.memory = MemoryPolicy{MemoryPolicy::Kind::kSize, 100, mib(static_cast<std::uint64_t>(*size))};
  for (const char* key : {"activeThreadPercentage", "activeThreadLimit"})
    if (f[key].given())
      f[key].ignored("is a fork's key without effect there and here",
                     "remove it; threads of an entry of sharing.mps.resources limits a slot's SMs");
  return enabled;
}

// The UUID if given: an index that is not written does not mean index 0.
std::optional<DeviceRef> gpu_of(const Value& entry, const Fields& f) {
  const Value uuid = f["uuid"];
  const Value index = f["index"];
  const Value& named = uuid.given() && uuid.plain_text() != "" ? uuid : index;
  if (!named.given()) return entry.refused("names no GPU", "write index: 0, or uuid: GPU-…");
  auto ref = device_reference(named);
  if (!ref) named.error("must name a GPU, but is " + describe(named.node()), "write index: 0, or uuid: GPU-…");
  return ref;
}

void parse_gpu(const Value& entry, Individual& into) {
  if (!is_mapping(entry, "write - {index: 0, mps: {enabled: true, replicas: 20}}")) return;
  const Fields f(entry);
  const auto gpu = gpu_of(entry, f);
  IndividualGpu one;
  one.entry.name = kGpu;
  one.entry.strategy = SharingStrategy::kMps;
  one.entry.place = entry.place();
  const auto name = f["name"].given() ? read_resource_name(f["name"]) : std::nullopt;
  const bool served = parse_mps_of_gpu(f["mps"], one);
  if (!gpu) return;
  one.entry.devices = std::vector<DeviceRef>{*gpu};
  if (!name || *name == expand(into.pattern, {gpu->text, 0, {}}))
    one.entry.names = into.pattern;
  else
    one.entry.rename = name;
  if (served) return into.gpus.push_back(std::move(one));
  entry.warn("is not shared by MPS, so the GPU is advertised whole, as " + std::string(kGpu),
             "write mps: {enabled: true, replicas: 20}, or remove the entry");
}

Individual parse_individual(const Value& section) {
  Individual individual;
  if (!is_mapping(section, "write enabled: true below it, or remove it")) return individual;
  const Fields f(section);
  f["enabled"].read(individual.enabled);
  if (const Value pattern = f["namePattern"]; pattern.given()) {
    const auto text = pattern.text();
    auto full = text ? name_pattern(*text) : Result<std::string>(individual.pattern);
    if (full && full->find("%d") != std::string::npos)
      individual.pattern = *std::move(full);
    else
      pattern.error(full ? "must hold %d, for the GPU's index" : full.error().what, "write for example gpu%d");
  }
  if (const Value list = f["gpuConfigs"]; list.given()) {
    if (list.node().kind != Node::Kind::kSequence)
      list.wrong_type("a list", "write - {index: 0, mps: {enabled: true, replicas: 20}}");
    else
      for (const Value& item : list.entries()) parse_gpu(item, individual);
  }
  return individual;
}

void apply_individual(const Individual& individual, const Value& fail_requests, std::optional<SplitPolicy> asked_split,
                      Sharing& sharing) {
  // That fork counts slots whatever the switch is set to, and its purpose is a container that requests gpu0: 5.
  if (sharing.fail_requests_greater_than_one && fail_requests.given())
    fail_requests.warn("has no effect beside individualGPU, where a container asks slots of each GPU",
                       "remove it, or write names: gpu%d in place of individualGPU");
  sharing.fail_requests_greater_than_one = false;
  const SplitPolicy split = asked_split.value_or(SplitPolicy::kSpan);
  for (SharedResource& entry : sharing.resources) {
    if (entry.name != kGpu || !entry.names.empty()) continue;
    entry.names = individual.pattern;
    entry.rename.reset();
    entry.split = split;
  }
  for (const IndividualGpu& gpu : individual.gpus) {
    SharedResource& entry = sharing.resources.emplace_back(gpu.entry);
    entry.threads = sharing.threads;
    entry.memory = gpu.memory.value_or(sharing.memory);
    entry.split = split;
  }
}

// Settings of a section that apply to each of its entries.
struct EntryRules {
  const Sharing& sharing;
  std::uint32_t most_slots = kMostSlots;  // that can be of use at once, where a container can hold only one
  std::optional<SplitPolicy> split{};     // absent: span for names with %d, else reject
};

constexpr std::int64_t kMostGb = 1'000'000;

std::optional<std::uint32_t> read_replicas(const Value& entry, const Value& value, const EntryRules& rules) {
  const bool mps = rules.sharing.strategy == SharingStrategy::kMps;
  if (!value.given())
    return (value.absent() ? entry : value)
        .refused(value.absent() ? "has no replicas" : "has nothing after it",
                 "write into how many slots each device is cut: replicas: 4");
  const auto count = value.integer();
  if (!count) return std::nullopt;
  const std::int64_t least = mps ? 1 : 2;  // one slot of MPS is the whole GPU, for the processes of one container
  if (*count < least)
    return value.refused("must be " + std::to_string(least) + " or more, but is " + std::to_string(*count),
                         "write how many containers may share one device, or remove the entry to share nothing");
  if (*count > kMostSlots)
    return value.refused("is " + std::to_string(*count) + ", more slots than the device plugin interface can list",
                         "write " + std::to_string(kMostSlots) + " or less");
  if (mps && *count > rules.most_slots)
    return value.refused("is " + std::to_string(*count) + ", and one MPS server has clients for at most " +
                             std::to_string(rules.most_slots) + " slots",
                         "write " + std::to_string(std::min(rules.most_slots, 48u)) +
                             " or less, or failRequestsGreaterThanOne: false where containers ask for several of "
                             "these slots");
  return static_cast<std::uint32_t>(*count);
}

// The selection, or nothing and a Problem.
std::optional<DeviceSelection> read_devices(const Value& value, const char* remedy) {
  if (value.null()) return value.refused("has nothing after it", remedy);
  if (value.node().kind == Node::Kind::kSequence) {
    std::vector<DeviceRef> refs;
    for (const Value& item : value.items()) {
      if (auto ref = device_reference(item))
        refs.push_back(*std::move(ref));
      else
        item.error("must be an index, a MIG index such as 0:1, or a UUID, but is " + describe(item.node()), remedy);
    }
    if (refs.size() != value.node().items.size()) return std::nullopt;
    return refs;
  }
  if (value.node().kind == Node::Kind::kMapping) {
    value.wrong_type("all, a count or a list", remedy);
    return std::nullopt;
  }
  if (const auto text = value.plain_text()) {
    if (*text == "all") return AllDevices{};
    return value.refused("must be all, a count or a list, but is " + in_quotes(*text), remedy);
  }
  const auto count = value.integer();
  if (!count) return std::nullopt;
  if (*count <= 0) return value.refused("must be more than 0, but is " + std::to_string(*count), remedy);
  if (*count > kMostSlots) return value.refused("is " + std::to_string(*count) + ", more than any node has", remedy);
  return DeviceCount{static_cast<std::uint32_t>(*count)};
}

// Without perDevice it is checked and then ignored: NVIDIA's programs share every device of the resource.
void parse_devices(const Value& value, bool per_device, SharedResource& into) {
  if (value.absent()) return;
  const auto selection = read_devices(
      value, per_device ? "write all, a count, or a list such as [0, 1]" : "write devices: all, or remove it");
  if (!selection) return;
  if (per_device) {
    if (const auto* refs = std::get_if<std::vector<DeviceRef>>(&*selection); refs != nullptr && refs->empty())
      value.error("is an empty list, so the entry shares nothing", "write all, a count, or a list such as [0, 1]");
    into.devices = *selection;
  } else if (!std::holds_alternative<AllDevices>(*selection)) {
    value.warn("has no effect without sharing.perDevice: true: every device of the resource is shared",
               "write perDevice: true below sharing to divide the devices, or remove it");
  }
}

// The effective rename. Without perDevice the file cannot choose it: "<name>.shared" or none.
std::optional<std::string> effective_rename(const Value& value, const std::string& name, const EntryRules& rules) {
  std::optional<std::string> in_force;
  if (rules.sharing.rename_by_default) in_force = name + ".shared";
  if (value.absent()) return in_force;
  if (value.null()) {
    value.error("has nothing after it", "remove it");
    return in_force;
  }
  auto asked = read_resource_name(value);
  if (rules.sharing.per_device) return asked ? asked : in_force;
  if (asked && asked != in_force)
    value.warn(
        "has no effect without sharing.perDevice: true: the resource is advertised as " + in_force.value_or(name),
        rules.sharing.rename_by_default ? "remove it"
                                        : "remove it, or write renameByDefault: true to get " + name + ".shared");
  return in_force;
}

void parse_names(const Fields& f, SharedResource& into) {
  const Value value = f["names"];
  if (!value.given()) return;
  const char* remedy = "write for example gpu%d, gpu-%ggb or gpu-%m";
  const auto text = value.text();
  if (!text) return;
  auto pattern = name_pattern(*text);
  if (!pattern) return value.error(pattern.error().what, remedy);
  if (f["rename"].given()) return value.error("is given beside rename", "remove one of the two");
  into.names = *std::move(pattern);
  into.rename.reset();  // renameByDefault does not apply to explicitly chosen names
}

// The number of slots: replicas, or slotMemory instead, which only MPS has.
bool parse_slots(const Value& entry, const Fields& f, const EntryRules& rules, SharedResource& into) {
  const Value slot_memory = f["slotMemory"];
  if (!slot_memory.given()) {
    const auto replicas = read_replicas(entry, f["replicas"], rules);
    into.replicas = replicas.value_or(1);
    return replicas.has_value();
  }
  into.slot_memory = read_memory_size(slot_memory, "write what one slot holds: slotMemory: 4Gi");
  into.replicas = 0;
  if (!f["replicas"].given()) return into.slot_memory.has_value();
  slot_memory.error("cannot be combined with replicas: both set the number of slots", "remove one of the two");
  return false;
}

// Nebuly's plugin: the memory of one slot in GB, which there means GiB.
void parse_memory_gb(const Fields& f, SharedResource& into) {
  const Value value = f["memoryGB"];
  if (!value.given()) return;
  const auto count = value.integer();
  if (!count) return;
  if (*count < 1 || *count > kMostGb)
    return value.error("must be 1 or more, but is " + std::to_string(*count), "write memory: 4Gi in its place");
  if (f["memory"].given()) return value.error("is given beside memory", "remove one of the two");
  into.memory = {MemoryPolicy::Kind::kSize, 100, gib(static_cast<std::uint64_t>(*count))};
}

void parse_mps_part(const Fields& f, const EntryRules& rules, SharedResource& into) {
  if (const Value guard = f["guard"]; is_mapping(guard, "write guard: {memory: terminate-newest}, or remove it"))
    read_into(Fields(guard)["memory"], into.guard_memory);
  read_into(f["threads"], into.threads);
  read_into(f["memory"], into.memory);
  parse_memory_gb(f, into);
  parse_names(f, into);
  std::optional<SplitPolicy> split = rules.split;
  read_into(f["split"], split);
  into.split = split.value_or(is_individual(into) ? SplitPolicy::kSpan : SplitPolicy::kReject);
}

// One entry of sharing.<section>.resources. Absent if it cannot be used; the Problems give the reasons.
std::optional<SharedResource> parse_entry(const Value& entry, const EntryRules& rules) {
  if (entry.null() || entry.node().kind != Node::Kind::kMapping) {
    entry.wrong_type("a mapping with name and replicas", "write - {name: nvidia.com/gpu, replicas: 4}");
    return std::nullopt;
  }
  const Fields f(entry);
  SharedResource resource;
  resource.strategy = rules.sharing.strategy;
  resource.threads = rules.sharing.threads;
  resource.memory = rules.sharing.memory;
  resource.place = entry.place();
  const Value name = f["name"];
  std::optional<std::string> full_name;
  if (!name.given())
    (name.absent() ? entry : name)
        .error(name.absent() ? "has no name" : "has nothing after it",
               "write which resource is shared: name: nvidia.com/gpu");
  else
    full_name = read_resource_name(name);
  resource.name = full_name.value_or("");
  resource.rename = effective_rename(f["rename"], resource.name, rules);
  parse_devices(f["devices"], rules.sharing.per_device, resource);
  if (resource.strategy == SharingStrategy::kMps) parse_mps_part(f, rules, resource);
  const bool sound = parse_slots(entry, f, rules, resource) && full_name.has_value();
  return sound ? std::optional(std::move(resource)) : std::nullopt;
}

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
  Config config;
  read_settings(f, config);
  Sharing& sharing = config.sharing;
  sharing.strategy = SharingStrategy::kMps;
  sharing.per_device = per_device;
  read_enable_memory_limit(f, sharing.memory);
  EntryRules rules{sharing};
  read_into(f["split"], rules.split);
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

void parse_strategies(const Value& section, const Individual& individual, Sharing& sharing) {
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

}  // namespace

void parse_sharing(const Value& section, const Value& individual_section, Sharing& sharing) {
  const Individual individual = parse_individual(individual_section);
  if (section.null())
    section.error("has nothing below it, so that every GPU stays whole",
                  "indent what belongs to it, or write sharing: {} if whole GPUs are meant");
  else if (is_mapping(section))
    parse_strategies(section, individual, sharing);
  if (!individual.enabled || sharing.strategy == SharingStrategy::kMps) return;
  const char* remedy = "write sharing: {mps: {}}, or remove it";
  if (sharing.strategy == SharingStrategy::kNone)
    individual_section.error("has no effect without sharing.mps, so that every GPU stays whole", remedy);
  else
    individual_section.ignored("has no effect without sharing.mps", remedy);
}

}  // namespace tranche::config
