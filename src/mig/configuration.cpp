#include "mig/configuration.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "base/problem_list.h"
#include "base/text.h"
#include "config/document/document.h"

namespace tranche::mig {
namespace {

using config::Member;
using config::Node;
using config::NodePtr;

constexpr std::string_view kVersion = "v1";
constexpr std::int64_t kHighestIndex = 1023;
constexpr std::int64_t kMostOfAProfile = 1000;

// 32 bits in hexadecimal with 0x in front, or in decimal: what mig-parted accepts.
std::optional<std::uint32_t> parse_number(std::string_view text) {
  const bool hexadecimal = text.starts_with("0x") || text.starts_with("0X");
  const auto number = parse_unsigned(hexadecimal ? text.substr(2) : text, hexadecimal ? 16 : 10);
  if (!number || *number > std::numeric_limits<std::uint32_t>::max()) return std::nullopt;
  return static_cast<std::uint32_t>(*number);
}

class Reader {
 public:
  explicit Reader(std::string_view source) : source_(source) {}

  ParsedFile read(std::string_view text) {
    ParsedFile parsed;
    const auto document = config::read_document(text, source_);
    if (document.problem) {
      problems_.add(*document.problem);
    } else if (document.root == nullptr || document.root->kind != Node::Kind::kMapping) {
      problems_.add({Severity::kError,
                     {source_, document.root ? 1 : 0, document.root ? 1 : 0},
                     {},
                     document.root == nullptr ? "the file is empty"
                                              : "must be a mapping, but is " + config::describe(*document.root),
                     "write version: v1 and mig-configs: with at least one configuration"});
    } else {
      file(*document.root, parsed.file);
    }
    problems_.sort_by_place();
    parsed.problems = problems_.take();
    return parsed;
  }

 private:
  Place at(const Node& node) const { return {source_, node.line, node.column}; }
  Place at(const Member& member) const { return {source_, member.line, member.column}; }

  void error(Place place, std::string path, std::string what, std::string remedy) {
    problems_.add({Severity::kError, std::move(place), std::move(path), std::move(what), std::move(remedy)});
  }
  void warn(Place place, std::string path, std::string what, std::string remedy) {
    problems_.add({Severity::kWarning, std::move(place), std::move(path), std::move(what), std::move(remedy)});
  }

  // The last member of that key; an earlier one is reported.
  const Member* member(const Node& mapping, std::string_view key, const std::string& path) {
    const Member* found = nullptr;
    for (const auto& one : mapping.members) {
      if (one.key != key) continue;
      if (found != nullptr && !found->merged && !one.merged)
        warn(at(one), path.empty() ? one.key : path + "." + one.key,
             fmt::format("is written twice; the one of line {} has no effect", found->line), "remove one of them");
      if (found == nullptr || found->merged || !one.merged) found = &one;
    }
    return found;
  }

  void refuse_unknown(const Node& mapping, const std::string& path, const std::vector<std::string_view>& known) {
    for (const auto& one : mapping.members) {
      if (std::ranges::find(known, one.key) != known.end()) continue;
      const std::string meant = did_you_mean(one.key, known);
      std::string list;
      for (const auto key : known) list += (list.empty() ? "" : ", ") + std::string(key);
      error(at(one), path.empty() ? one.key : path + "." + one.key, "is not a key of the format",
            meant.empty() ? "the keys here are " + list : "did you mean " + meant + "?");
    }
  }

  void file(const Node& root, ConfigurationFile& into) {
    refuse_unknown(root, "", {"version", "mig-configs"});
    const Member* version = member(root, "version", "");
    if (version == nullptr) {
      error({source_, 1, 1}, "version", "is missing", "write version: v1");
    } else if (version->value->kind != Node::Kind::kScalar || version->value->text != kVersion) {
      error(at(*version->value), "version",
            version->value->kind == Node::Kind::kScalar ? "must be v1, but is " + in_quotes(version->value->text)
                                                        : "must be v1, but is " + config::describe(*version->value),
            "write version: v1");
    }
    const Member* configs = member(root, "mig-configs", "");
    if (configs == nullptr)
      return error({source_, 1, 1}, "mig-configs", "is missing", "write mig-configs: with at least one configuration");
    if (configs->value->kind != Node::Kind::kMapping)
      return error(at(*configs->value), "mig-configs",
                   "must be a mapping of names, but is " + config::describe(*configs->value),
                   "write for example all-disabled: and below it a list of entries");
    if (configs->value->members.empty())
      return error(at(*configs->value), "mig-configs", "has no configuration", "write at least one");
    std::set<std::string_view> seen;
    for (const auto& one : configs->value->members) {
      if (!seen.insert(one.key).second) continue;
      const Member* last = member(*configs->value, one.key, "mig-configs");
      Configuration configuration{one.key, {}, at(*last)};
      entries(*last, "mig-configs." + one.key, configuration);
      into.configurations.push_back(std::move(configuration));
    }
  }

  void entries(const Member& of, const std::string& path, Configuration& into) {
    const Node& list = *of.value;
    if (list.kind != Node::Kind::kSequence)
      return error(at(list), path, "must be a list of entries, but is " + config::describe(list),
                   "write - devices: all with mig-enabled: below it");
    if (list.items.empty())
      return error(at(list), path, "has no entry", "write - devices: all with mig-enabled: below it");
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      Entry one;
      entry(*list.items[i], fmt::format("{}[{}]", path, i), one);
      into.entries.push_back(std::move(one));
    }
  }

  void entry(const Node& node, const std::string& path, Entry& into) {
    into.place = at(node);
    if (node.kind != Node::Kind::kMapping)
      return error(at(node), path, "must be a mapping, but is " + config::describe(node),
                   "write devices: and mig-enabled:");
    refuse_unknown(node, path, {"device-filter", "devices", "mig-enabled", "mig-devices"});
    if (const Member* filter = member(node, "device-filter", path))
      filters(*filter->value, path + ".device-filter", into);
    if (const Member* list = member(node, "devices", path))
      devices(*list->value, path + ".devices", into);
    else
      error(at(node), path + ".devices", "is missing", "write devices: all, or a list of indices such as [0, 1]");
    const Member* enabled = member(node, "mig-enabled", path);
    const bool read = enabled != nullptr && boolean(*enabled->value, path + ".mig-enabled", into.enabled);
    if (enabled == nullptr) error(at(node), path + ".mig-enabled", "is missing", "write mig-enabled: true or false");
    const Member* instances = member(node, "mig-devices", path);
    if (instances != nullptr) instances_of(*instances->value, path + ".mig-devices", into);
    if (!read) return;
    const bool given = instances != nullptr && instances->value->kind != Node::Kind::kNull;
    if (into.enabled && !given)
      error(instances == nullptr ? at(node) : at(*instances), path + ".mig-devices",
            "is missing while mig-enabled is true",
            "write for example mig-devices: {\"1g.10gb\": 7}, or {} for no instance");
    if (!into.enabled && given && !instances->value->members.empty())
      error(at(*instances), path + ".mig-devices", "has instances while mig-enabled is false",
            "remove it, or write mig-enabled: true");
  }

  void filters(const Node& node, const std::string& path, Entry& into) {
    if (node.kind == Node::Kind::kNull) return;
    if (node.kind == Node::Kind::kSequence) {
      for (std::size_t i = 0; i < node.items.size(); ++i)
        filter(*node.items[i], fmt::format("{}[{}]", path, i), false, into);
      return;
    }
    filter(node, path, true, into);
  }

  void filter(const Node& node, const std::string& path, bool may_be_empty, Entry& into) {
    constexpr auto kRemedy =
        "write the PCI device number as \"0x20B010DE\", with the board's as \"0x20B010DE:0x134F10DE\"";
    if (node.kind != Node::Kind::kScalar)
      return error(at(node), path, "must be a device filter, but is " + config::describe(node), kRemedy);
    if (may_be_empty && node.text.empty()) return;
    // A number without quotes is none of the strings that mig-parted reads; the text is the same, so it is understood.
    if (const auto filter = parse_device_filter(node.text))
      into.filters.push_back(*filter);
    else
      error(at(node), path, "must be a device filter, but is " + in_quotes(node.text), kRemedy);
  }

  void devices(const Node& node, const std::string& path, Entry& into) {
    if (node.kind == Node::Kind::kScalar && node.text == "all") return;
    if (node.kind != Node::Kind::kSequence)
      return error(at(node), path, "must be all or a list of indices, but is " + config::describe(node),
                   "write devices: all, or devices: [0, 1]");
    into.devices.emplace();
    if (node.items.empty()) warn(at(node), path, "names no GPU, so the entry has no effect", "write devices: all");
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      const auto scalar = node.items[i]->kind == Node::Kind::kScalar ? config::scalar_of(*node.items[i])
                                                                     : config::Scalar(config::Null{});
      const auto* index = std::get_if<std::int64_t>(&scalar);
      if (index == nullptr || *index < 0 || *index > kHighestIndex) {
        error(at(*node.items[i]), fmt::format("{}[{}]", path, i),
              "must be the index of a GPU, but is " + config::describe(*node.items[i]), "write for example [0, 1]");
      } else if (std::ranges::find(*into.devices, *index) != into.devices->end()) {
        warn(at(*node.items[i]), fmt::format("{}[{}]", path, i), fmt::format("names GPU {} again", *index),
             "remove one of them");
      } else {
        into.devices->push_back(static_cast<std::uint32_t>(*index));
      }
    }
  }

  bool boolean(const Node& node, const std::string& path, bool& into) {
    const auto scalar = node.kind == Node::Kind::kScalar ? config::scalar_of(node) : config::Scalar(config::Null{});
    if (const auto* value = std::get_if<bool>(&scalar)) {
      into = *value;
      return true;
    }
    error(at(node), path, "must be true or false, but is " + config::describe(node), "write true or false");
    return false;
  }

  void instances_of(const Node& node, const std::string& path, Entry& into) {
    if (node.kind == Node::Kind::kNull) return;
    if (node.kind != Node::Kind::kMapping)
      return error(at(node), path, "must be a mapping of profiles to counts, but is " + config::describe(node),
                   "write for example \"1g.10gb\": 7");
    bool any = false;
    std::set<std::string_view> seen;
    for (const auto& one : node.members) {
      if (!seen.insert(one.key).second) continue;
      any |= count(*member(node, one.key, path), path + "." + one.key, into);
    }
    if (!node.members.empty() && !any)
      error(at(node), path, "has only counts of 0", "write {} for MIG without instances, or a count of at least 1");
  }

  // Whether it adds to what the configuration wants, or has been reported.
  bool count(const Member& of, const std::string& path, Entry& into) {
    const auto name = parse_profile_name(of.key);
    if (!name)
      error(at(of), path, "is not the name of a MIG profile",
            "write for example 1g.10gb, 1g.10gb+me, or 1c.3g.40gb for a part of an instance");
    const auto scalar =
        of.value->kind == Node::Kind::kScalar ? config::scalar_of(*of.value) : config::Scalar(config::Null{});
    const auto* number = std::get_if<std::int64_t>(&scalar);
    if (number == nullptr || *number < 0 || *number > kMostOfAProfile) {
      error(at(*of.value), path, "must be a count, but is " + config::describe(*of.value), "write for example 7");
      return true;
    }
    if (!name) return true;
    if (*number == 0) return false;
    into.instances[*name] += static_cast<std::uint32_t>(*number);
    into.places.emplace(*name, at(of));
    return true;
  }

  std::string source_;
  ProblemList problems_;
};

std::string yaml_key(std::string_view text) {
  const bool plain = !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' ||
           c == '_' || c == '+';
  });
  // What begins with a letter and has none of YAML's words reads as text.
  const bool text_like = plain && !std::holds_alternative<bool>(config::resolve_plain(text)) &&
                         std::holds_alternative<std::string>(config::resolve_plain(text)) && text.front() != '-';
  if (text_like) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      quoted += {'\\', c};
    else if (byte < 0x20 || byte == 0x7f)
      quoted += fmt::format("\\x{:02x}", byte);
    else
      quoted += c;
  }
  return quoted + '"';
}

}  // namespace

bool DeviceFilter::matches(std::uint32_t pci_device_id, std::uint32_t pci_subsystem_id) const {
  return device == pci_device_id && (!subsystem || *subsystem == pci_subsystem_id);
}

std::optional<DeviceFilter> parse_device_filter(std::string_view text) {
  const auto colon = text.find(':');
  const auto device = parse_number(text.substr(0, colon));
  if (!device) return std::nullopt;
  DeviceFilter filter{*device, std::nullopt};
  if (colon == std::string_view::npos) return filter;
  filter.subsystem = parse_number(text.substr(colon + 1));
  return filter.subsystem ? std::optional(filter) : std::nullopt;
}

std::string to_string(const DeviceFilter& filter) {
  return fmt::format("0x{:08X}", filter.device) + (filter.subsystem ? fmt::format(":0x{:08X}", *filter.subsystem) : "");
}

std::string to_string(const Instances& instances) {
  std::string text;
  for (const auto& [name, count] : instances)
    text += fmt::format("{}{} × {}", text.empty() ? "" : ", ", count, to_string(name));
  return text.empty() ? "no instances" : text;
}

bool Entry::names(std::uint32_t index, std::uint32_t pci_device_id, std::uint32_t pci_subsystem_id) const {
  const bool model = filters.empty() || std::ranges::any_of(filters, [&](const DeviceFilter& filter) {
                       return filter.matches(pci_device_id, pci_subsystem_id);
                     });
  return model && (!devices || std::ranges::find(*devices, index) != devices->end());
}

const Configuration* ConfigurationFile::find(std::string_view name) const {
  const auto found = std::ranges::find(configurations, name, &Configuration::name);
  return found == configurations.end() ? nullptr : &*found;
}

std::vector<std::string_view> ConfigurationFile::names() const {
  std::vector<std::string_view> names;
  for (const auto& one : configurations) names.push_back(one.name);
  return names;
}

ParsedFile parse_configuration_file(std::string_view text, std::string_view source) {
  return Reader(source).read(text);
}

std::expected<const Configuration*, Problem> select_configuration(const ConfigurationFile& file, std::string_view name,
                                                                  std::string_view source) {
  if (name.empty() && file.configurations.size() == 1) return &file.configurations.front();
  if (const Configuration* found = file.find(name)) return found;
  std::string list;
  for (const auto one : file.names()) list += (list.empty() ? "" : ", ") + std::string(one);
  Problem problem{Severity::kError, {std::string(source), 0, 0}, "mig-configs", {}, "the configurations are " + list};
  if (name.empty()) {
    problem.what = fmt::format("has {} configurations and none is selected", file.configurations.size());
  } else {
    problem.what = "has no configuration " + in_quotes(name);
    if (const auto meant = did_you_mean(name, file.names()); !meant.empty())
      problem.remedy = "did you mean " + meant + "? " + std::string("The configurations are ") + list;
  }
  return std::unexpected(std::move(problem));
}

std::string to_yaml(const ConfigurationFile& file) {
  std::string out = "version: v1\nmig-configs:\n";
  for (const auto& configuration : file.configurations) {
    out += "  " + yaml_key(configuration.name) + ":\n";
    for (const auto& entry : configuration.entries) {
      std::string indent = "  - ";
      const auto line = [&](const std::string& text) {
        out += indent + text + "\n";
        indent = "    ";
      };
      std::vector<std::string> filters;
      for (const auto& filter : entry.filters) filters.push_back('"' + to_string(filter) + '"');
      if (filters.size() == 1) line("device-filter: " + filters.front());
      if (filters.size() > 1) line("device-filter: [" + join(filters, ", ") + "]");
      std::vector<std::string> indices;
      if (entry.devices)
        for (const auto index : *entry.devices) indices.push_back(std::to_string(index));
      line(entry.devices ? "devices: [" + join(indices, ", ") + "]" : "devices: all");
      line(entry.enabled ? "mig-enabled: true" : "mig-enabled: false");
      line(entry.instances.empty() ? "mig-devices: {}" : "mig-devices:");
      for (const auto& [name, count] : entry.instances) line("  " + to_string(name) + ": " + std::to_string(count));
    }
  }
  return out;
}

}  // namespace tranche::mig
