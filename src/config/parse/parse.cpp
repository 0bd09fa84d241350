#include "config/parse/parse.h"

#include <algorithm>

#include "config/field.h"

namespace tranche::config {
namespace {

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
  for (const Value& list : {f["gpus"], f["mig"]}) {
    if (!list.given()) continue;
    if (list.node().kind != Node::Kind::kSequence) {
      list.wrong_type("a list", "remove it: it is not used");
      continue;
    }
    bool sound = true;
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
