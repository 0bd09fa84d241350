#include <algorithm>
#include <limits>
#include <map>

#include "config/names.h"
#include "config/sections.h"

namespace tranche::config {
namespace {

// kubelet takes a device list in one message; far above what a node can use, and a bound on what we hold.
constexpr std::int64_t kMostReplicas = 65535;

std::optional<std::string> read_name(const Value& value) {
  const auto text = value.text();
  if (!text) return std::nullopt;
  auto name = resource_name(*text);
  if (name) return *std::move(name);
  value.error(name.error().what, "write for example nvidia.com/gpu");
  return std::nullopt;
}

std::optional<std::uint32_t> read_replicas(const Value& entry, const Value& value) {
  if (!value.given()) {
    (value.absent() ? entry : value)
        .error(value.absent() ? "has no replicas" : "has nothing after it",
               "write into how many slots each device is cut: replicas: 4");
    return std::nullopt;
  }
  const auto count = value.integer();
  if (!count) return std::nullopt;
  if (*count < 2) {
    value.error("must be 2 or more, but is " + std::to_string(*count),
                "write how many containers may share one device, or remove the entry to share nothing");
    return std::nullopt;
  }
  if (*count > kMostReplicas) {
    value.error("is " + std::to_string(*count) + ", more slots than kubelet can be told of", "write 65535 or less");
    return std::nullopt;
  }
  return static_cast<std::uint32_t>(*count);
}

bool is_valid_reference(const Value& item) {
  if (item.node().kind != Node::Kind::kScalar) return false;
  const Scalar scalar = scalar_of(item.node());
  if (const auto* text = std::get_if<std::string>(&scalar)) return is_device_reference(*text);
  const auto* index = std::get_if<std::int64_t>(&scalar);
  return index != nullptr && *index >= 0;
}

// The selection is checked and then set aside: NVIDIA's programs share every device of the resource.
void check_devices(const Value& value) {
  if (value.absent()) return;
  const char* remedy = "write devices: all, or remove it";
  if (value.null()) return value.error("has nothing after it", remedy);
  if (value.node().kind == Node::Kind::kSequence) {
    bool sound = true;
    for (const Value& item : value.items()) {
      if (is_valid_reference(item)) continue;
      item.error("must be an index, a MIG index such as 0:1, or a UUID, but is " + describe(item.node()), remedy);
      sound = false;
    }
    if (!sound) return;
  } else if (const Scalar scalar = scalar_of(value.node()); value.node().kind == Node::Kind::kMapping) {
    return value.wrong_type("all, a count or a list", remedy);
  } else if (const auto* text = std::get_if<std::string>(&scalar)) {
    if (*text == "all") return;
    return value.error("must be all, a count or a list, but is " + in_quotes(*text), remedy);
  } else if (const auto count = value.integer(); !count) {
    return;
  } else if (*count <= 0) {
    return value.error("must be more than 0, but is " + std::to_string(*count), remedy);
  }
  value.warn("is read and then not used: every device of the resource is shared", remedy);
}

// The rename in force, which the file cannot choose: "<name>.shared" or none.
std::optional<std::string> effective_rename(const Value& value, const std::string& name, bool rename_by_default) {
  std::optional<std::string> in_force;
  if (rename_by_default) in_force = name + ".shared";
  if (value.absent()) return in_force;
  if (value.null()) {
    value.error("has nothing after it", "remove it");
    return in_force;
  }
  const auto asked = read_name(value);
  if (asked && asked != in_force)
    value.warn(
        "is read and then not used: the resource is advertised as " + in_force.value_or(name),
        rename_by_default ? "remove it" : "remove it, or write renameByDefault: true to get " + name + ".shared");
  return in_force;
}

std::optional<SharedResource> parse_entry(const Value& entry, bool rename_by_default) {
  if (entry.null() || entry.node().kind != Node::Kind::kMapping) {
    entry.wrong_type("a mapping with name and replicas", "write - {name: nvidia.com/gpu, replicas: 4}");
    return std::nullopt;
  }
  const Fields f(entry, KeyCase::kExact, {"name", "rename", "devices", "replicas"});
  SharedResource resource;
  resource.place = entry.place();
  const Value name = f["name"];
  std::optional<std::string> full_name;
  if (!name.given())
    (name.absent() ? entry : name)
        .error(name.absent() ? "has no name" : "has nothing after it",
               "write which resource is shared: name: nvidia.com/gpu");
  else
    full_name = read_name(name);
  const auto replicas = read_replicas(entry, f["replicas"]);
  check_devices(f["devices"]);
  resource.name = full_name.value_or("");
  resource.rename = effective_rename(f["rename"], resource.name, rename_by_default);
  if (!full_name || !replicas) return std::nullopt;
  resource.replicas = *replicas;
  return resource;
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

// renameByDefault, failRequestsGreaterThanOne and resources of one section.
Sharing parse_section(const Value& section, const Fields& f, SharingStrategy strategy) {
  Sharing sharing;
  sharing.strategy = strategy;
  sharing.fail_requests_greater_than_one = strategy == SharingStrategy::kMps;
  f["renameByDefault"].read(sharing.rename_by_default);
  f["failRequestsGreaterThanOne"].read(sharing.fail_requests_greater_than_one);
  const Value list = f["resources"];
  const char* remedy = "write resources: [{name: nvidia.com/gpu, replicas: 4}]";
  if (!list.given() || (list.node().kind == Node::Kind::kSequence && list.node().items.empty())) {
    (list.absent() ? section : list).error("no resources specified", remedy);
  } else if (list.node().kind != Node::Kind::kSequence) {
    list.wrong_type("a list", remedy);
  } else {
    for (const Value& item : list.items())
      if (auto entry = parse_entry(item, sharing.rename_by_default)) sharing.resources.push_back(*std::move(entry));
    warn_of_repeats(sharing.resources, list);
  }
  return sharing;
}

std::optional<Sharing> parse_time_slicing(const Value& section) {
  if (section.absent()) return std::nullopt;
  const char* remedy = "write resources: [{name: nvidia.com/gpu, replicas: 4}] below it, or remove it";
  if (section.null()) {
    section.warn("has nothing below it, so it shares nothing (NVIDIA's programs refuse that)", remedy);
    return std::nullopt;
  }
  if (section.node().kind != Node::Kind::kMapping) {
    section.wrong_type("a mapping", remedy);
    return std::nullopt;
  }
  const Fields f(section, KeyCase::kExact, {"renameByDefault", "failRequestsGreaterThanOne", "resources"});
  return parse_section(section, f, SharingStrategy::kTimeSlicing);
}

std::optional<Sharing> parse_mps(const Value& section) {
  if (!section.given()) return std::nullopt;
  if (section.node().kind != Node::Kind::kMapping) {
    section.wrong_type("a mapping", "write resources: [{name: nvidia.com/gpu, replicas: 4}] below it");
    return std::nullopt;
  }
  const Fields f(section, KeyCase::kExact,
                 {"renameByDefault", "failRequestsGreaterThanOne", "resources", "computeMode", "smRounding"});
  Sharing sharing = parse_section(section, f, SharingStrategy::kMps);
  f["computeMode"].read_word(sharing.compute_mode, kComputeModePolicies);
  if (!f["smRounding"].given()) return sharing;
  // "off" without quotes is the boolean false in YAML 1.1; here it can only mean the word.
  const Value rounding = f["smRounding"];
  if (rounding.node().kind == Node::Kind::kScalar && scalar_of(rounding.node()) == Scalar{false}) {
    rounding.note_given();
    sharing.sm_rounding = SmRounding::kOff;
  } else {
    rounding.read_word(sharing.sm_rounding, kSmRoundings);
  }
  return sharing;
}

}  // namespace

void parse_sharing(const Value& section, Sharing& sharing) {
  const Fields f(section, KeyCase::kAny, {"timeSlicing", "mps"});
  auto time_slicing = parse_time_slicing(f["timeSlicing"]);
  auto mps = parse_mps(f["mps"]);
  if (mps && time_slicing)
    f["timeSlicing"].warn("is ignored, because sharing.mps is given as well and MPS wins", "remove one of the two");
  if (mps)
    sharing = *std::move(mps);
  else if (time_slicing)
    sharing = *std::move(time_slicing);
}

}  // namespace tranche::config
