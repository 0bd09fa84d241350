#include <algorithm>

#include "base/text.h"
#include "config/document/scalar.h"
#include "config/keys.h"
#include "config/names.h"
#include "config/parse/sections.h"

namespace tranche::config {
namespace {

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

std::optional<GuardMemory> parse_entry_guard(const Value& section) {
  if (!is_mapping(section, "write guard: {memory: terminate-newest}, or remove it")) return std::nullopt;
  const Fields f(section);
  if (!f["memory"].given()) return std::nullopt;
  GuardMemory memory = Guard{}.memory;
  f["memory"].read_word(memory);
  return memory;
}

void parse_mps_part(const Fields& f, const EntryRules& rules, SharedResource& into) {
  into.guard_memory = parse_entry_guard(f["guard"]);
  read_value(f["threads"], into.threads);
  read_value(f["memory"], into.memory);
  parse_memory_gb(f, into);
  parse_names(f, into);
  std::optional<SplitPolicy> split = rules.split;
  read_split(f["split"], split);
  into.split = split.value_or(is_individual(into) ? SplitPolicy::kSpan : SplitPolicy::kReject);
}

}  // namespace

std::optional<std::string> read_resource_name(const Value& value) {
  const auto text = value.text();
  if (!text) return std::nullopt;
  auto name = resource_name(*text);
  if (name) return *std::move(name);
  return value.refused(name.error().what, "write for example nvidia.com/gpu");
}

std::optional<DeviceRef> device_reference(const Value& item) {
  const Scalar scalar = scalar_of(item.node());
  if (const auto* text = std::get_if<std::string>(&scalar))
    return is_device_reference(*text) ? std::optional(DeviceRef{*text}) : std::nullopt;
  const auto* index = std::get_if<std::int64_t>(&scalar);
  if (index == nullptr || *index < 0) return std::nullopt;
  return DeviceRef{std::to_string(*index)};
}

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

}  // namespace tranche::config
