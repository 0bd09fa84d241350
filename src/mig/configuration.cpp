#include "mig/configuration.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/text.h"
#include "config/document/fields.h"

namespace tranche::mig {
namespace {

using config::Member;
using config::Node;
using config::Value;

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

// The members of a mapping; of those with one key the last, and the others are reported.
std::vector<const Member*> members_of(const Value& mapping) {
  std::vector<const Member*> members;
  for (const auto& one : mapping.node().members) {
    const auto same = std::ranges::find(members, one.key, &Member::key);
    if (same == members.end()) {
      members.push_back(&one);
      continue;
    }
    mapping.key_of(one).warn(fmt::format("is written twice; the one of line {} has no effect", (*same)->line),
                             "remove one of them");
    *same = &one;
  }
  return members;
}

// The same, and keys that are not known are reported.
std::vector<const Member*> refuse_unknown(const Value& mapping, const std::vector<std::string_view>& known,
                                          const char* of = "the format") {
  auto members = members_of(mapping);
  for (const auto* one : members) {
    if (std::ranges::find(known, one->key) != known.end()) continue;
    const std::string meant = did_you_mean(one->key, known);
    mapping.key_of(*one).error(
        fmt::format("is not a key of {}", of),
        meant.empty() ? fmt::format("the keys here are {}", fmt::join(known, ", ")) : "did you mean " + meant + "?");
  }
  return members;
}

// Whether it is of that kind, or is reported.
bool is_a(Node::Kind kind, const Value& value, std::string_view what, const char* remedy) {
  if (!value.is(kind)) value.wrong_type(what, remedy);
  return value.is(kind);
}

// The same of what may be absent or empty.
bool has(Node::Kind kind, const Value& value, std::string_view what, const char* remedy) {
  return value.given() && is_a(kind, value, what, remedy);
}

void read_filter(const Value& value, bool may_be_empty, Entry& into) {
  constexpr auto kRemedy =
      "write the PCI device number as \"0x20B010DE\", with the board's as \"0x20B010DE:0x134F10DE\"";
  if (!value.is(Node::Kind::kScalar)) return value.wrong_type("a device filter", kRemedy);
  const std::string& text = value.node().text;
  if (may_be_empty && text.empty()) return;
  // mig-parted accepts strings only; a number without quotes has the same text, so it is accepted here.
  if (const auto filter = parse_device_filter(text))
    into.filters.push_back(*filter);
  else
    value.error("must be a device filter, but is " + in_quotes(text), kRemedy);
}

void read_filters(const Value& value, Entry& into) {
  if (!value.given()) return;
  if (!value.is(Node::Kind::kSequence)) return read_filter(value, true, into);
  for (const Value& item : value.items()) read_filter(item, false, into);
}

void read_devices(const Value& value, Entry& into) {
  if (value.absent()) return value.error("is missing", "write devices: all, or a list of indices such as [0, 1]");
  if (value.is(Node::Kind::kScalar) && value.node().text == "all") return;
  if (!is_a(Node::Kind::kSequence, value, "all or a list of indices", "write devices: all, or devices: [0, 1]")) return;
  into.devices.emplace();
  if (value.node().items.empty()) value.warn("names no GPU, so the entry has no effect", "write devices: all");
  for (const Value& item : value.items()) {
    const auto index = item.as<std::int64_t>();
    if (!index || *index < 0 || *index > kHighestIndex)
      item.wrong_type("the index of a GPU", "write for example [0, 1]");
    else if (std::ranges::find(*into.devices, *index) != into.devices->end())
      item.warn(fmt::format("names GPU {} again", *index), "remove one of them");
    else
      into.devices->push_back(static_cast<std::uint32_t>(*index));
  }
}

// Whether it adds to what the configuration wants, or has been reported.
bool read_count(const Value& mapping, const Member& of, Entry& into) {
  const auto name = parse_profile_name(of.key);
  if (!name)
    mapping.key_of(of).error("is not the name of a MIG profile",
                             "write for example 1g.10gb, 1g.10gb+me, or 1c.3g.40gb for a part of an instance");
  const auto scalar = config::scalar_of(*of.value);
  const auto* number = std::get_if<std::int64_t>(&scalar);
  if (number == nullptr || *number < 0 || *number > kMostOfAProfile) {
    mapping.value_of(of).wrong_type("a count", "write for example 7");
    return true;
  }
  if (!name) return true;
  if (*number == 0) return false;
  into.instances[*name] += static_cast<std::uint32_t>(*number);
  into.places.emplace(*name, mapping.key_of(of).place());
  return true;
}

void read_instances(const Value& value, Entry& into) {
  if (!has(Node::Kind::kMapping, value, "a mapping of profiles to counts", "write for example \"1g.10gb\": 7")) return;
  const auto members = members_of(value);
  bool any = members.empty();
  for (const auto* one : members) any |= read_count(value, *one, into);
  if (!any) value.error("has only counts of 0", "write {} for MIG without instances, or a count of at least 1");
}

Entry read_entry(const Value& value) {
  Entry entry;
  entry.place = value.place();
  if (!is_a(Node::Kind::kMapping, value, "a mapping", "write devices: and mig-enabled:")) return entry;
  refuse_unknown(value, {"device-filter", "devices", "mig-enabled", "mig-devices"});
  read_filters(value.member("device-filter"), entry);
  read_devices(value.member("devices"), entry);
  const Value mode = value.member("mig-enabled"), instances = value.member("mig-devices");
  if (mode.absent()) mode.error("is missing", "write mig-enabled: true or false");
  read_instances(instances, entry);
  const auto enabled = mode.absent() ? std::nullopt : mode.boolean();
  entry.enabled = enabled.value_or(false);
  if (entry.enabled && !instances.given())
    instances.error("is missing while mig-enabled is true",
                    "write for example mig-devices: {\"1g.10gb\": 7}, or {} for no instance");
  if (enabled == false && instances.given() && !instances.node().members.empty())
    instances.error("has instances while mig-enabled is false", "remove it, or write mig-enabled: true");
  return entry;
}

void read_version(const Value& file) {
  const Value version = file.member("version");
  if (version.absent()) return version.error("is missing", "write version: v1");
  if (is_a(Node::Kind::kScalar, version, kVersion, "write version: v1") && version.node().text != kVersion)
    version.error("must be v1, but is " + in_quotes(version.node().text), "write version: v1");
}

void read_file(const Value& file, ConfigurationFile& into) {
  constexpr auto kEntries = "write - devices: all with mig-enabled: below it";
  if (config::is_other_file(file)) return;
  refuse_unknown(file, {"version", "mig-configs"});
  read_version(file);
  const Value configs = file.member("mig-configs");
  if (configs.absent()) return configs.error("is missing", "write mig-configs: with at least one configuration");
  if (!is_a(Node::Kind::kMapping, configs, "a mapping of names",
            "write for example all-disabled: and below it a list of entries"))
    return;
  if (configs.node().members.empty()) return configs.error("has no configuration", "write at least one");
  for (const auto* one : members_of(configs)) {
    auto& [name, entries] = into.configurations.emplace_back(one->key, std::vector<Entry>());
    const Value list = configs.value_of(*one);
    if (!is_a(Node::Kind::kSequence, list, "a list of entries", kEntries)) continue;
    if (list.node().items.empty()) list.error("has no entry", kEntries);
    for (const Value& entry : list.items()) entries.push_back(read_entry(entry));
  }
}

constexpr const char* kHooksFile = "a hooks file";

void read_word(const Value& value, std::string& into) {
  into = value.of(Node::Kind::kScalar, "a text", "write it in quotes").node().text;
}

Hook read_hook(const Value& value) {
  Hook hook;
  if (!is_a(Node::Kind::kMapping, value, "a mapping", "write command: and args:")) return hook;
  refuse_unknown(value, {"command", "args", "envs", "workdir"}, kHooksFile);
  read_word(value.member("command"), hook.command);
  read_word(value.member("workdir"), hook.workdir);
  for (const Value& argument :
       value.member("args").of(Node::Kind::kSequence, "a list", "write [\"-c\", \"…\"]").items())
    read_word(argument, hook.args.emplace_back());
  const Value envs = value.member("envs").of(Node::Kind::kMapping, "a mapping", "write NAME: value");
  for (const auto& env : envs.node().members) read_word(envs.value_of(env), hook.envs[env.key]);
  if (hook.command.empty()) value.absent("command").error("is missing", "name the program to run");
  return hook;
}

void read_hooks(const Value& file, Hooks& hooks) {
  refuse_unknown(file, {"version", "hooks"}, kHooksFile);
  read_version(file);
  const Value stages = file.member("hooks").of(Node::Kind::kMapping, "a mapping of stages", "write apply-start:");
  const char* remedy = "write - command: and args: below it";
  for (const auto* one :
       refuse_unknown(stages, {"apply-start", "pre-apply-mode", "pre-apply-config", "apply-exit"}, kHooksFile))
    for (const Value& hook : stages.value_of(*one).of(Node::Kind::kSequence, "a list of commands", remedy).items())
      hooks[one->key].push_back(read_hook(hook));
}

// The problems of a document that `read` takes apart.
template <class Read>
std::vector<Problem> read_text(std::string_view text, std::string_view source, Read read) {
  config::Findings findings;
  findings.source = source;
  const auto document = config::read_document(text, source);
  const int begin = document.root != nullptr ? 1 : 0;
  const Value file(document.root.get(), "", {findings.source, begin, begin}, findings);
  if (document.problem)
    findings.problems.add(*document.problem);
  else
    read(file);
  findings.problems.sort_by_place();
  return findings.problems.take();
}

std::string yaml_key(std::string_view text) {
  const bool plain = !text.empty() && std::ranges::all_of(text, [](char c) {
    return is_alnum(c) || c == '.' || c == '-' || c == '_' || c == '+';
  });
  // What begins with a letter and has none of YAML's words reads as text.
  if (plain && std::holds_alternative<std::string>(config::resolve_plain(text)) && text.front() != '-')
    return std::string(text);
  return json_text(nlohmann::json(text));  // which YAML reads as well
}

DeviceFilter filter_of(const GpuState& gpu) {
  return {gpu.pci_device_id, std::nullopt};
}

bool several_models(const std::vector<GpuState>& gpus) {
  return std::ranges::any_of(gpus,
                             [&](const GpuState& gpu) { return gpu.pci_device_id != gpus.front().pci_device_id; });
}

// GPUs of one PCI device number have the same profiles: one of each, by the text of its filter.
std::map<std::string, const GpuState*> kinds_of(const std::vector<GpuState>& gpus) {
  std::map<std::string, const GpuState*> kinds;
  for (const auto& gpu : gpus)
    if (gpu.capable && !gpu.profiles.empty()) kinds.emplace(to_string(filter_of(gpu)), &gpu);
  return kinds;
}

// Two of one slice and one of two, and on GPUs of seven slices one of three.
Instances balanced(const GpuState& gpu) {
  std::uint32_t whole = 0;
  for (const auto& profile : gpu.profiles) whole = std::max(whole, profile.slices);
  Instances wanted;
  const auto add = [&](std::uint32_t slices, std::uint32_t count) {
    // Of several with as many slices the one without attributes that fits most often: 1g.10gb, not 1g.20gb.
    const Profile* best = nullptr;
    for (const auto& profile : gpu.profiles)
      if (profile.slices == slices && profile.name.ends_with("gb") &&
          (best == nullptr || profile.at_most > best->at_most))
        best = &profile;
    if (best == nullptr) return false;
    wanted[*parse_profile_name(best->name)] = count;
    return true;
  };
  if (whole != 4 && whole != 7) return {};
  if (!add(1, 2) || !add(2, 1) || (whole == 7 && !add(3, 1))) return {};
  return wanted;
}

// "all-1g.10gb.me" of "1g.10gb+me".
std::string default_name(const ProfileName& profile) {
  std::string name = "all-" + to_string(profile);
  std::ranges::replace(name, '+', '.');
  return name;
}

}  // namespace

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
  if (instances.empty()) return "no instances";
  return join(instances, ", ",
              [](const auto& one) { return fmt::format("{} × {}", one.second, to_string(one.first)); });
}

Instances instances_of(const GpuState& gpu) {
  Instances has;
  for (const GpuInstance& instance : gpu.instances)
    for (const ComputeInstance& one : instance.compute) {
      const auto name = compute_name(gpu.profiles, instance.profile_id, one.placement.size);
      ++has[parse_profile_name(name).value_or(ProfileName{})];
    }
  return has;
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
  ParsedFile parsed;
  parsed.problems = read_text(text, source, [&](const Value& file) {
    constexpr auto kRemedy = "write version: v1 and mig-configs: with at least one configuration";
    if (file.absent()) return file.error("the file is empty", kRemedy);
    if (file.is(Node::Kind::kMapping)) return read_file(file, parsed.file);
    file.wrong_type("a mapping", file.is(Node::Kind::kSequence)
                                     ? "write version: v1, mig-configs: and the name of a configuration above the list"
                                     : kRemedy);
  });
  return parsed;
}

ParsedHooks parse_hooks_file(std::string_view text, std::string_view source) {
  ParsedHooks parsed;
  parsed.problems = read_text(text, source, [&](const Value& file) {
    if (file.absent() || !file.is(Node::Kind::kMapping))
      return file.error("must be a mapping", "write version: v1 and hooks:");
    read_hooks(file, parsed.hooks);
  });
  return parsed;
}

std::expected<const Configuration*, Problem> select_configuration(const ConfigurationFile& file, std::string_view name,
                                                                  std::string_view source) {
  if (name.empty() && file.configurations.size() == 1) return &file.configurations.front();
  if (const Configuration* found = file.find(name)) return found;
  const std::string list = fmt::format("{}", fmt::join(file.names(), ", "));
  Problem problem{Severity::kError, {std::string(source), 0, 0}, "mig-configs", {}, "the configurations are " + list};
  if (name.empty()) {
    problem.what = fmt::format("has {} configurations and none is selected", file.configurations.size());
  } else {
    problem.what = "has no configuration " + in_quotes(name);
    if (const auto meant = did_you_mean(name, file.names()); !meant.empty())
      problem.remedy = "did you mean " + meant + "? The configurations are " + list;
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
      const auto filters = join(entry.filters, ", ", [](const auto& filter) { return '"' + to_string(filter) + '"'; });
      if (entry.filters.size() == 1) line("device-filter: " + filters);
      if (entry.filters.size() > 1) line("device-filter: [" + filters + "]");
      line(entry.devices ? fmt::format("devices: [{}]", fmt::join(*entry.devices, ", ")) : "devices: all");
      line(entry.enabled ? "mig-enabled: true" : "mig-enabled: false");
      line(entry.instances.empty() ? "mig-devices: {}" : "mig-devices:");
      for (const auto& [name, count] : entry.instances) line("  " + to_string(name) + ": " + std::to_string(count));
    }
  }
  return out;
}

std::string to_json_text(const ConfigurationFile& file) {
  using Json = nlohmann::ordered_json;
  Json configurations = Json::object();
  for (const auto& configuration : file.configurations) {
    Json entries = Json::array();
    for (const auto& entry : configuration.entries) {
      Json json = Json::object(), filters = Json::array(), instances = Json::object();
      for (const auto& filter : entry.filters) filters.push_back(to_string(filter));
      for (const auto& [name, count] : entry.instances) instances[to_string(name)] = count;
      if (!filters.empty()) json["device-filter"] = filters.size() == 1 ? filters[0] : filters;
      json["devices"] = entry.devices ? Json(*entry.devices) : Json("all");
      json["mig-enabled"] = entry.enabled;
      json["mig-devices"] = std::move(instances);
      entries.push_back(std::move(json));
    }
    configurations[configuration.name] = std::move(entries);
  }
  const Json document = {{"version", "v1"}, {"mig-configs", std::move(configurations)}};
  return json_text(document, 2);
}

ConfigurationFile default_configurations(const std::vector<GpuState>& gpus) {
  const auto kinds = kinds_of(gpus);
  const bool several = several_models(gpus);
  ConfigurationFile file;
  file.configurations = {{"all-disabled", {{}}}, {"all-enabled", {{.enabled = true}}}};

  Configuration all_balanced{"all-balanced", {}};
  for (const auto& [filter, gpu] : kinds) {
    Entry entry{.enabled = true, .instances = balanced(*gpu)};
    if (several) entry.filters = {filter_of(*gpu)};
    if (!entry.instances.empty()) all_balanced.entries.push_back(std::move(entry));
  }
  if (!all_balanced.entries.empty()) file.configurations.push_back(std::move(all_balanced));

  // By name, then by how many of it fit: kinds that agree share an entry.
  std::map<ProfileName, std::map<std::uint32_t, std::vector<DeviceFilter>>> by_name;
  for (const auto& [filter, gpu] : kinds)
    for (const auto& profile : gpu->profiles)
      if (const auto name = parse_profile_name(profile.name))
        by_name[*name][profile.at_most].push_back(filter_of(*gpu));
  for (const auto& [name, counts] : by_name) {
    Configuration configuration{default_name(name), {}};
    for (const auto& [count, filters] : counts) {
      Entry& entry = configuration.entries.emplace_back(Entry{.enabled = true, .instances = {{name, count}}});
      if (several) entry.filters = filters;
    }
    file.configurations.push_back(std::move(configuration));
  }
  return file;
}

ConfigurationFile exported(const std::vector<GpuState>& gpus, const std::string& name) {
  std::vector<Entry> entries;  // one for each state
  for (const auto& gpu : gpus) {
    Instances has = gpu.enabled ? instances_of(gpu) : Instances{};
    has.erase(ProfileName{});
    auto entry = std::ranges::find_if(
        entries, [&](const Entry& one) { return one.enabled == gpu.enabled && one.instances == has; });
    if (entry == entries.end())
      entry = entries.insert(entry, {.devices = {{}}, .enabled = gpu.enabled, .instances = std::move(has)});
    entry->devices->push_back(gpu.index);
    if (std::ranges::find(entry->filters, filter_of(gpu)) == entry->filters.end())
      entry->filters.push_back(filter_of(gpu));
  }
  for (Entry& entry : entries) {
    std::ranges::sort(entry.filters);
    const bool every = std::ranges::all_of(gpus, [&](const GpuState& gpu) {  // GPU of these models
      return std::ranges::find(entry.filters, filter_of(gpu)) == entry.filters.end() ||
             std::ranges::find(*entry.devices, gpu.index) != entry.devices->end();
    });
    if (every) entry.devices.reset();
    if (!several_models(gpus) || entries.size() == 1) entry.filters.clear();
  }
  return {{{name, std::move(entries)}}};
}

}  // namespace tranche::mig
