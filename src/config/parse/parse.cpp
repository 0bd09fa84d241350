#include "config/parse/parse.h"

#include <algorithm>
#include <iterator>
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
  read_into(f["enabled"], enabled);
  if (const auto count = counted(f["replicas"], kMostSlots, "write into how many slots the GPU is cut"))
    into.entry.replicas = static_cast<std::uint32_t>(*count);
  bool limited = true;
  read_into(f["enableMemoryLimit"], limited);
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
  read_into(f["enabled"], individual.enabled);
  if (const Value pattern = f["namePattern"]; pattern.given()) {
    const auto text = pattern.text();
    auto full = text ? name_pattern(*text) : Result<std::string>(individual.pattern);
    if (full && full->find("%d") != std::string::npos)
      individual.pattern = *std::move(full);
    else
      pattern.error(full ? "must hold %d, for the GPU's index" : full.error().what, "write for example gpu%d");
  }
  const char* remedy = "write - {index: 0, mps: {enabled: true, replicas: 20}}";
  for (const Value& item : f["gpuConfigs"].of(Node::Kind::kSequence, "a list", remedy).entries())
    parse_gpu(item, individual);
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

// The value of a key that each entry needs; one without a value is reported.
bool has(const Value& entry, const Value& value, const std::string& name, const char* remedy) {
  if (value.absent()) entry.error("has no " + name, remedy);
  if (value.null()) value.error("has nothing after it", remedy);
  return value.given();
}

std::optional<std::uint32_t> read_replicas(const Value& entry, const Value& value, const EntryRules& rules) {
  const bool mps = rules.sharing.strategy == SharingStrategy::kMps;
  if (!has(entry, value, "replicas", "write into how many slots each device is cut: replicas: 4")) return std::nullopt;
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
  if (!entry.is(Node::Kind::kMapping)) {
    entry.wrong_type("a mapping with name and replicas", "write - {name: nvidia.com/gpu, replicas: 4}");
    return std::nullopt;
  }
  const Fields f(entry);
  SharedResource resource;
  resource.strategy = rules.sharing.strategy;
  resource.threads = rules.sharing.threads;
  resource.memory = rules.sharing.memory;
  resource.place = entry.place();
  const bool named = has(entry, f["name"], "name", "write which resource is shared: name: nvidia.com/gpu");
  const auto full_name = named ? read_resource_name(f["name"]) : std::nullopt;
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
  read_into(f["renameByDefault"], sharing.rename_by_default);
  read_into(f["failRequestsGreaterThanOne"], sharing.fail_requests_greater_than_one);
  if (!sharing.fail_requests_greater_than_one) rules.most_slots = kMostSlots;
  const Value list = f["resources"];
  const char* remedy = "write resources: [{name: nvidia.com/gpu, replicas: 4}]";
  const Value entries = list.of(Node::Kind::kSequence, "a list", remedy);
  const bool none = !list.given() || (list.is(Node::Kind::kSequence) && list.node().items.empty());
  if (none && needs_resources) (list.absent() ? section : list).error("no resources specified", remedy);
  for (const Value& item : entries.entries()) {
    if (section.findings().problems.over()) break;
    if (auto entry = parse_entry(item, rules)) sharing.resources.push_back(*std::move(entry));
  }
  if (!sharing.per_device) warn_of_repeats(sharing.resources, list);
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

void parse_strategies(const Value& section, const Individual& individual, Sharing& sharing) {
  const Fields f(section);
  bool per_device = false;
  read_into(f["perDevice"], per_device);
  per_device = per_device || individual.enabled;
  auto time_slicing = parse_time_slicing(f["timeSlicing"], per_device);
  auto mps = parse_mps(f["mps"], individual, per_device);
  if (mps && time_slicing && !per_device)
    f["timeSlicing"].warn("is ignored, because sharing.mps is given as well and MPS wins", "remove one of the two");
  if (mps && time_slicing && per_device) {  // both are in effect: the MPS entries first, then the others
    mps->one_time_slice = time_slicing->fail_requests_greater_than_one;
    std::ranges::move(time_slicing->resources, std::back_inserter(mps->resources));
  }
  if (mps)
    sharing = *std::move(mps);
  else if (time_slicing)
    sharing = *std::move(time_slicing);
  else if (f["timeSlicing"].absent() && !f["mps"].given() && !section.node().members.empty())
    section.error("has neither timeSlicing nor mps with a value, so that every GPU stays whole",
                  "write one of them with resources: below it, or sharing: {} if whole GPUs are meant");
  sharing.per_device = per_device;
  if (per_device) refuse_two_owners(sharing.resources, section);
}

// For `sharing`, and for a fork's `individualGPU`, which makes entries of sharing.mps.
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

void parse_flags(const Value& section, Config& config) {
  if (!is_mapping(section)) return;
  const Fields f(section);
  for (const auto& [key, remedy] :
       {std::pair{"namedResources", "write names: gpu-%d in an entry of sharing.mps.resources"},
        std::pair{"mpsMemoryLimiting", "remove it: memory is limited unless memory: open"}})
    if (f[key].given()) f[key].ignored("is a fork's key without effect here", remedy);
  read_settings(f, config);
}

// A rule that names resources by a pattern.
bool is_sound_rule(const Value& item) {
  if (!is_mapping(item)) return false;
  const Fields entry(item);
  bool sound = true;
  for (const char* key : {"pattern", "name"}) {
    if (entry[key].given()) {
      sound = entry[key].text().has_value() && sound;
      continue;
    }
    item.error(std::string("lacks ") + key, "remove the list: it is not used");
    sound = false;
  }
  return sound;
}

// Read and checked, but not used: NVIDIA's programs clear these lists after parsing.
void parse_resources(const Value& section) {
  if (section.given() && section.is(Node::Kind::kSequence))
    return section.wrong_type("a mapping",
                              "indent the list of shared resources below sharing.timeSlicing or sharing.mps");
  if (!is_mapping(section)) return;
  const Fields f(section);
  for (const Value& each : {f["gpus"], f["mig"]}) {
    const Value list = each.of(Node::Kind::kSequence, "a list", "remove it: it is not used");
    bool sound = !list.absent();
    for (const Value& item : list.items()) sound = is_sound_rule(item) && sound;
    if (sound) list.warn("has no effect: resources get their names by the MIG strategy", "remove it");
  }
}

void parse_version(const Value& value, std::string& version) {
  if (!value.note_given()) return;
  const auto text = value.plain_text();
  if (!text) return value.wrong_type("v1", "write version: v1");
  if (text->empty() || *text == "v1") return;
  version = *text;
  value.error("is " + in_quotes(*text) + ", and only v1 is known", "write version: v1");
}

// The section of `sharing` by which a file shares GPUs, "" = none; MPS wins.
std::string section_that_shares(const Node& root) {
  std::string section;
  for (const Member& top : root.members)
    if (same_in_any_case(top.key, "sharing") && top.value->kind == Node::Kind::kMapping)
      for (const Member& member : top.value->members)
        if (member.value->kind == Node::Kind::kMapping && (member.key == "mps" || member.key == "timeSlicing"))
          if (section != "sharing.mps") section = "sharing." + member.key;
  return section;
}

void report_second(const Node& second, Findings& findings) {
  const Value value(&second, "", {findings.source, second.line, second.column}, findings);
  const char* what = "begins a second document of the file, and only the first one is read";
  const char* remedy = "remove the line --- above it";
  findings.shares_by.empty() ? value.error(what, remedy) : value.ignored(what, remedy);
}

void parse_root(const Value& root, const Node* second, Config& config) {
  if (!is_mapping(root) || is_other_file(root)) return;
  root.findings().shares_by = section_that_shares(root.node());
  if (second != nullptr) report_second(*second, root.findings());
  const Fields f(root);
  parse_version(f["version"], config.version);
  parse_flags(f["flags"], config);
  parse_resources(f["resources"]);
  parse_sharing(f["sharing"], f["individualGPU"], config.sharing);
  read_section(f["devices"], config);
  read_section(f["dra"], config);
  read_section(f["imex"], config);
}

}  // namespace

Parsed parse(std::string_view text, std::string_view source, UnknownKeys unknown_keys) {
  const Document document = read_document(text, source);
  Parsed parsed;
  if (document.problem) {
    parsed.problems.push_back(*document.problem);
    return parsed;
  }
  if (source.empty() && !document.root) return parsed;
  Findings findings;
  findings.source = source;
  findings.unknown_keys = unknown_keys;
  Node nothing;
  nothing.line = nothing.column = 1;
  const Node& node = document.root ? *document.root : nothing;
  const Value root(&node, "", {findings.source, node.line, node.column}, findings);
  if (root.null()) {
    const bool follows = document.ignored != nullptr;
    root.error(follows ? "has an empty first document, and only the first one is read" : "is empty",
               follows ? "remove the line --- above the settings" : "write version: v1 if whole GPUs are meant");
  }
  parse_root(root, document.ignored.get(), parsed.config);
  findings.problems.sort_by_place();
  parsed.problems = findings.problems.take();
  parsed.given = std::move(findings.given);
  parsed.bad_words = std::move(findings.bad_words);
  return parsed;
}

}  // namespace tranche::config
