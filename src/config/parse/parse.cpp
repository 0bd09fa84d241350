#include "config/parse/parse.h"

#include <algorithm>

#include "config/document/duration.h"
#include "config/document/fields.h"
#include "config/names.h"
#include "config/parse/sections.h"

namespace tranche::config {
namespace {

// Whether the value is a mapping. Absent and null are not reported, other types are.
bool is_mapping(const Value& value) {
  if (!value.given()) return false;
  if (value.node().kind == Node::Kind::kMapping) return true;
  value.wrong_type("a mapping", "write keys and values below it, indented");
  return false;
}

std::string one_of_these(std::string_view word) {
  std::vector<std::string_view> words;
  for (const ListStrategy strategy : kListStrategies) words.push_back(to_string(strategy));
  const std::string meant = did_you_mean(word, words);
  return meant.empty() ? "write one of these words" : "did you mean " + meant + "?";
}

void read_list_strategy(const Value& value, std::vector<ListStrategy>& into) {
  if (!value.given()) return;
  value.note_given();
  const bool single = value.node().kind == Node::Kind::kScalar;
  if (!single && value.node().kind != Node::Kind::kSequence) {
    value.wrong_type("a word or a list of words", "write for example deviceListStrategy: [envvar]");
    return;
  }
  std::vector<ListStrategy> strategies;
  for (const Value& item : single ? std::vector<Value>{value} : value.items()) {
    const auto word = item.plain_text();
    if (!word) {
      item.wrong_type(text_of_all(kListStrategies), "write one of these words");
      continue;
    }
    if (const auto strategy = from_word(*word, kListStrategies)) {
      if (std::ranges::find(strategies, *strategy) == strategies.end()) strategies.push_back(*strategy);
      continue;
    }
    const bool joined = word->find(',') != std::string::npos;
    item.error("must be " + text_of_all(kListStrategies) + ", but is " + in_quotes(*word),
               joined ? "a file does not split at commas: write a list, [" + *word + "]" : one_of_these(*word));
    item.note_bad_word();
  }
  if (!single && value.node().items.empty())
    value.warn("is an empty list, so that containers would receive no device list",
               "remove it to get the default, envvar");
  into = std::move(strategies);
}

void read_sleep_interval(const Value& value, Duration& into) {
  if (!value.given()) return;
  value.note_given();
  const char* remedy = "write for example 60s, 1m30s or infinite";
  if (value.node().kind != Node::Kind::kScalar) return value.wrong_type("a duration", remedy);
  const Scalar scalar = scalar_of(value.node());
  double nanoseconds = 0;
  if (const auto* text = std::get_if<std::string>(&scalar)) {
    const auto duration = parse_duration(*text);
    if (!duration) return value.error("must be a duration, but is " + in_quotes(*text), remedy);
    into = *duration;
    return;
  } else if (const auto* integer = std::get_if<std::int64_t>(&scalar)) {
    into = Duration(*integer);
    nanoseconds = static_cast<double>(*integer);
  } else if (const auto* real = std::get_if<double>(&scalar); real != nullptr && *real > -9.2e18 && *real < 9.2e18) {
    into = Duration(static_cast<std::int64_t>(*real));
    nanoseconds = *real;
  } else {
    return value.wrong_type("a duration", remedy);
  }
  if (nanoseconds < 1e9)
    value.warn("is a bare number, which counts nanoseconds: labels would be renewed without a pause",
               "write a unit: " + value.node().text + "s");
}

void parse_plugin(const Value& section, PluginFlags& plugin) {
  if (!is_mapping(section)) return;
  const Fields f(section);
  f["passDeviceSpecs"].read(plugin.pass_device_specs);
  read_list_strategy(f["deviceListStrategy"], plugin.device_list_strategy);
  f["deviceIDStrategy"].read_word(plugin.device_id_strategy, kIdStrategies);
  f["cdiAnnotationPrefix"].read(plugin.cdi_annotation_prefix);
  f["nvidiaCTKPath"].read(plugin.nvidia_ctk_path);
  f["containerDriverRoot"].read(plugin.container_driver_root);
  f["sharedDevicesAllocationPolicy"].read_word(plugin.shared_devices_allocation_policy, kAllocationPolicies);
}

void parse_gfd(const Value& section, GfdFlags& gfd) {
  if (!is_mapping(section)) return;
  const Fields f(section);
  f["oneshot"].read(gfd.oneshot);
  f["noTimestamp"].read(gfd.no_timestamp);
  read_sleep_interval(f["sleepInterval"], gfd.sleep_interval);
  f["outputFile"].read(gfd.output_file);
  f["machineTypeFile"].read(gfd.machine_type_file);
}

void parse_flags(const Value& section, Flags& flags) {
  if (!is_mapping(section)) return;
  const Fields f(section);
  for (const auto& [key, remedy] :
       {std::pair{"namedResources", "write names: gpu-%d in an entry of sharing.mps.resources"},
        std::pair{"mpsMemoryLimiting", "remove it: memory is limited unless memory: open"}})
    if (f[key].given()) f[key].ignored("is a fork's key without effect here", remedy);
  f["migStrategy"].read_word(flags.mig_strategy, kMigStrategies);
  f["failOnInitError"].read(flags.fail_on_init_error);
  f["mpsRoot"].read(flags.mps_root);
  f["nvidiaDriverRoot"].read(flags.nvidia_driver_root);
  f["nvidiaDevRoot"].read(flags.nvidia_dev_root);
  f["gdrcopyEnabled"].read(flags.gdrcopy_enabled);
  f["gdsEnabled"].read(flags.gds_enabled);
  f["mofedEnabled"].read(flags.mofed_enabled);
  f["useNodeFeatureAPI"].read(flags.use_node_feature_api);
  f["deviceDiscoveryStrategy"].read_word(flags.device_discovery_strategy, kDiscoveryStrategies);
  parse_plugin(f["plugin"], flags.plugin);
  parse_gfd(f["gfd"], flags.gfd);
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
  for (const Value& list : {f["gpus"], f["mig"]}) {
    if (!list.given()) continue;
    if (list.node().kind != Node::Kind::kSequence) {
      list.wrong_type("a list", "remove it: it is not used");
      continue;
    }
    bool sound = true;
    for (const Value& item : list.items()) sound = is_sound_rule(item) && sound;
    if (sound) list.warn("is read and then not used: resources get their names by the MIG strategy", "remove it");
  }
}

void parse_imex(const Value& section, Imex& imex) {
  if (!is_mapping(section)) return;
  const Fields f(section);
  f["required"].read(imex.required);
  const Value channels = f["channelIDs"];
  if (!channels.given()) return;
  channels.note_given();
  if (channels.node().kind != Node::Kind::kSequence)
    return channels.wrong_type("a list of whole numbers", "write channelIDs: [0], or remove it");
  for (const Value& item : channels.items()) {
    const auto id = item.integer();
    if (!id) continue;
    if (*id == 0 && imex.channel_ids.empty()) {
      imex.channel_ids.push_back(0);
      continue;
    }
    item.error("must be empty or the one channel 0, but has " + std::to_string(*id) + (*id == 0 ? " twice" : ""),
               "write channelIDs: [0], or remove it");
    item.note_bad_word();
  }
}

void parse_dra_devices(const Value& devices, Dra& dra) {
  if (!devices.given() || devices.node().kind != Node::Kind::kSequence)
    return devices.read_word(dra.devices, kDraDevicesPolicies);
  const auto items = devices.items();
  if (std::ranges::empty(items))
    return devices.error("is an empty list", "write the GPUs of claims, such as [0, 1], or the word none");
  dra.devices = DraDevices::kListed;
  read_gpu_patterns(devices, dra.listed);
}

void parse_dra(const Value& section, Dra& dra) {
  if (!is_mapping(section)) return;
  const Fields f(section);
  parse_dra_devices(f["devices"], dra);
  f["split"].read_word(dra.split, kSplitPolicies);
  f["partitions"].read_word(dra.partitions, kDraPartitionPolicies);
  const Value name = f["driverName"];
  if (!name.given()) return;
  name.note_given();
  const char* remedy = "write for example gpu.tranche.io, or remove it";
  const auto text = name.plain_text();
  if (!text) return name.wrong_type("the name of a DRA driver", remedy);
  if (text->size() > kLongestDriverName)
    return name.error("has " + std::to_string(text->size()) + " characters, and 63 are the most", remedy);
  if (!is_subdomain(*text))
    return name.error(
        "must be a DNS subdomain (lower-case letters, digits, \"-\" and \".\"), but is " + in_quotes(*text), remedy);
  if (text->front() < 'a' || text->front() > 'z')  // it is the vendor in names of CDI devices as well
    return name.error("must begin with a letter, but is " + in_quotes(*text), remedy);
  dra.driver_name = *text;
}

void parse_version(const Value& value, std::string& version) {
  if (!value.given()) return;
  value.note_given();
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

void parse_shared(const Value& sharing, const Individual& individual, Sharing& into) {
  if (sharing.null())
    return sharing.error("has nothing below it, so that every GPU stays whole",
                         "indent what belongs to it, or write sharing: {} if whole GPUs are meant");
  if (is_mapping(sharing)) parse_sharing(sharing, individual, into);
}

void parse_root(const Value& root, Config& config) {
  if (!is_mapping(root)) return;
  if (is_other_file(root)) return;
  root.findings().shares_by = section_that_shares(root.node());
  const Fields f(root);
  parse_version(f["version"], config.version);
  parse_flags(f["flags"], config.flags);
  parse_resources(f["resources"]);
  const Individual individual = parse_individual(f["individualGPU"]);
  parse_shared(f["sharing"], individual, config.sharing);
  if (individual.enabled && config.sharing.strategy == SharingStrategy::kNone)
    f["individualGPU"].error("has no effect without sharing.mps, so that every GPU stays whole",
                             "write sharing: {mps: {}}, or remove it");
  else if (individual.enabled && config.sharing.strategy != SharingStrategy::kMps)
    f["individualGPU"].ignored("has no effect without sharing.mps", "write sharing: {mps: {}}, or remove it");
  parse_device_filter(f["devices"], config.devices);
  parse_dra(f["dra"], config.dra);
  parse_imex(f["imex"], config.imex);
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
  if (root.null())
    root.error("is empty: a first document without a key",
               "write version: v1 if whole GPUs are meant, and no --- above the settings");
  parse_root(root, parsed.config);
  if (const Node* second = document.ignored.get()) {
    const Value ignored(second, "", {findings.source, second->line, second->column}, findings);
    const char* what = "begins a second document of the file, and only the first one is read";
    const char* remedy = "remove the line --- above it";
    findings.shares_by.empty() ? ignored.error(what, remedy) : ignored.ignored(what, remedy);
  }
  findings.problems.sort_by_place();
  parsed.problems = findings.problems.take();
  parsed.given = std::move(findings.given);
  parsed.bad_words = std::move(findings.bad_words);
  return parsed;
}

}  // namespace tranche::config
