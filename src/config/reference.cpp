#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/enum_names.h"
#include "base/json_text.h"
#include "base/text.h"
#include "config/keys.h"

namespace tranche::config {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kHead =
    R"(# Configuration reference

Every key of a configuration file, as `tranche check --config-reference` prints it. [Configure](../guide/configure.md) explains how files are read, checked and selected.

A key has its values in parentheses, the default in bold, then flags and variables that set it. Flags take precedence over variables, and variables over the file. NVIDIA's programs ignore keys with †. For editors, start a file with `# yaml-language-server: $schema=…/config.schema.json` to use [the JSON Schema](../../deploy/schema/config.schema.json), which `tranche check --config-schema` prints.
)";

constexpr std::string_view kUnusedHead =
    R"(
### Keys without effect

Checked only: )";

constexpr std::string_view kForkHead =
    R"(
### Keys of a fork

Accepted so that the fork's files work:

)";

constexpr std::string_view kRules =
    R"(
## Flags and variables

These have no key:

)";

constexpr std::string_view kPrecedence =
    R"(
Rules:

- Switches accept `1 t T true True TRUE 0 f F false False FALSE`.
- If several variables set a key, a program uses the first one that exists. Only `gpu-feature-discovery` and `tranche labels` read `GFD_…` variables, and they read them first.
- An existing but empty variable sets a text to empty (which can be invalid), a switch to false, and a list to one empty item; empty numbers and durations are ignored.
- An invalid value in the file is not an error if a flag or variable overrides it.
- `--help` of each program lists its flags. `mps-control-daemon` has only `--mig-strategy` and `--config-file`.
)";

std::string code(std::string_view text) {
  return "`" + std::string(text) + "`";
}

// The form of a key's values: in the reference, where = stands for the words, and each choice in the schema, as JSON or
// by one of the names below.
constexpr const char* kOneWord = "word";
constexpr const char* kWordLists = "lists of words";
constexpr const char* kMapping = "mapping";
constexpr const char* kMappings = "mappings";

Json list_of(Json items) {
  return {{"type", "array"}, {"items", std::move(items)}};
}

struct Form {
  std::string_view text;
  std::vector<Json> choices;
};

const Form& form_of(KeyType type) {
  static const auto text_like = [](const char* pattern) { return Json{{"type", "string"}, {"pattern", pattern}}; };
  static const Json text{{"type", "string"}};
  static const Json size = text_like("^[0-9]+(\\.[0-9]+)?(Mi|Gi|Ti|M|G|T)$");
  static const Json devices = list_of({{"type", Json::array({"string", "integer"})}});
  static const auto with = [](Json schema, const char* key, int value) {
    schema[key] = value;
    return schema;
  };
  static const std::map<KeyType, Form> forms{
      {KeyType::kSection, {"mapping", {kMapping}}},
      {KeyType::kSections, {"list of mappings", {kMappings}}},
      {KeyType::kSwitch, {"=", {{{"type", "boolean"}}}}},
      {KeyType::kText, {"string", {text}}},
      {KeyType::kTexts, {"list of strings", {text}}},
      {KeyType::kPath, {"path", {text}}},
      {KeyType::kWord, {"=", {kOneWord}}},
      {KeyType::kWordList, {"one or more of =", {kOneWord, kWordLists}}},
      {KeyType::kCount, {"", {{{"type", "integer"}}}}},
      {KeyType::kFactor, {"0.01 to 100", {{{"type", "number"}, {"minimum", 0.01}, {"maximum", 100}}}}},
      {KeyType::kDuration, {"duration", {{{"type", Json::array({"string", "integer"})}}}}},
      {KeyType::kProof, {"`0`, or a duration of at least 10s", {{{"const", 0}}, text}}},
      {KeyType::kSize, {"size with a unit", {size}}},
      {KeyType::kReserve, {"=, a size", {kOneWord, size}}},
      {KeyType::kThreads, {"=, a factor, a number of SMs", {kOneWord, kMapping}}},
      {KeyType::kMemory, {"=, a factor, a size", {kOneWord, size, kMapping}}},
      {KeyType::kResource, {"resource name", {text}}},
      {KeyType::kNames, {"string with `%d`, `%g` or `%m`", {text_like("%[dgm]")}}},
      {KeyType::kDevices,
       {"`all`, a count, or a list of index, MIG index (`0:1`), UUID",
        {{{"const", "all"}}, {{"type", "integer"}, {"minimum", 1}}, devices}}},
      {KeyType::kGpus, {"list of UUID, PCI address, index, model with `*`", {devices}}},
      {KeyType::kSomeGpus,
       {"=, or a list of UUID, PCI address, index, model with `*`", {kOneWord, with(devices, "minItems", 1)}}},
      {KeyType::kIndex, {"index", {{{"type", "integer"}, {"minimum", 0}}}}},
      {KeyType::kChannels, {"`[]`, `[0]`", {with(list_of({{"const", 0}}), "maxItems", 1)}}},
      {KeyType::kDriver,
       {"DNS subdomain", {text_like("^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$")}}}};
  return forms.at(type);
}

// The values of a key, the default among words in bold.
std::string values_of(const Key& key) {
  if (key.type == KeyType::kCount) return fmt::format("{} to {}", key.least, key.most);
  std::vector<std::string> words;
  for (const auto word : key.type == KeyType::kSwitch ? std::vector<std::string_view>{"true", "false"} : key.words)
    words.push_back(word == key.usual ? "**" + code(word) + "**" : code(word));
  std::string text(form_of(key.type).text);
  if (const auto at = text.find('='); at != std::string::npos) text.replace(at, 1, join(words, ", "));
  return text;
}

// The flags and variables that set a key, each as code.
std::vector<std::string> spellings_of(const Key& key) {
  std::vector<std::string> spellings;
  for (const auto flag : key.flags) spellings.push_back(code((flag.size() == 1 ? "-" : "--") + std::string(flag)));
  for (const auto variable : key.variables) spellings.push_back(code(variable));
  return spellings;
}

std::string_view mark_of(Origin origin) {
  return enum_name<Origin::kUnused>(origin, {"", "†", "", ""});
}

// "../guide/share-sizes.md" → "share-sizes".
std::string_view stem_of(std::string_view path) {
  path.remove_prefix(path.rfind('/') + 1);  // npos + 1 is 0
  return path.substr(0, path.rfind('.'));
}

// The section whose key an entry of sharing.mps.resources has too, or "": its row is not written twice.
std::string_view twin_of(const Key& key) {
  constexpr std::string_view kEntry = "sharing.mps.resources[].";
  if (!key.path.starts_with(kEntry)) return {};
  for (const std::string_view section : {"sharing.mps", "sharing.timeSlicing.resources[]"}) {
    const std::string path = std::string(section) + "." + std::string(key.path.substr(kEntry.size()));
    const auto twin = std::ranges::find(keys(), std::string_view(path), &Key::path);
    if (twin != keys().end() && twin->type == key.type && twin->words == key.words && twin->least == key.least &&
        twin->most == key.most)
      return section;
  }
  return {};
}

// Whether values_of() already shows the default among the values.
bool shows_default(const Key& key) {
  return key.type == KeyType::kSwitch || std::ranges::find(key.words, key.usual) != key.words.end();
}

std::string row_of(const Key& key) {
  constexpr KeyType kWithExample[] = {KeyType::kSections, KeyType::kThreads, KeyType::kNames, KeyType::kGpus};
  std::string values = values_of(key);
  if (std::ranges::find(kWithExample, key.type) != std::end(kWithExample) && key.sample != key.usual)
    values += ", such as " + code(key.sample);
  if (!key.usual.empty() && !shows_default(key)) values += ", **" + code(key.usual) + "**";
  const std::string given = join(spellings_of(key), " ");
  std::string row = fmt::format("- {}{} ({}{}{}): {}", code(key.path), mark_of(key.origin), values,
                                given.empty() ? "" : "; ", given, key.meaning);
  if (!key.see.empty()) row += fmt::format(" ([{}]({}))", stem_of(key.see), key.see);
  return row + "\n";
}

// One row for the keys of an entry that are those of `section`.
std::string twins_row(const std::vector<const Key*>& twins, std::string_view section) {
  std::vector<std::string> names;
  for (const Key* key : twins) names.push_back(code(key->path) + std::string(mark_of(key->origin)));
  return fmt::format("- {}: as in {}, of this entry\n", join(names, " "), code(section));
}

// The heading of a key: its nearest section, except that small sections are listed with their parent.
std::string_view heading_of(std::string_view path) {
  for (const std::string_view section : {"flags.plugin", "flags.gfd", "sharing.timeSlicing", "sharing.mps.resources[]",
                                         "sharing.mps", "devices", "dra", "imex", "flags"})
    if (path.starts_with(std::string(section) + ".")) return section;
  return path.starts_with("sharing") ? "sharing" : "";
}

bool is_listed(const Key& key) {
  return key.origin != Origin::kUnused && key.origin != Origin::kFork;
}

std::string keys_text() {
  std::string text = "\n## Keys\n";
  std::vector<std::string_view> headings, unused;
  std::string of_fork;
  for (const Key& key : keys()) {
    if (key.type == KeyType::kSection) continue;
    const auto heading = heading_of(key.path);
    if (key.origin == Origin::kUnused) unused.push_back(key.path);
    if (key.origin == Origin::kFork) of_fork += fmt::format("- {}: {}\n", code(key.path), key.meaning);
    if (is_listed(key) && std::ranges::find(headings, heading) == headings.end()) headings.push_back(heading);
  }
  for (const auto heading : headings) {
    text += "\n### " + (heading.empty() ? "Top level" : code(heading)) + "\n\n";
    std::vector<const Key*> rows;
    for (const Key& key : keys())
      if (key.type != KeyType::kSection && is_listed(key) && heading_of(key.path) == heading) rows.push_back(&key);
    for (const Key* key : rows)
      if (twin_of(*key).empty()) text += row_of(*key);
    for (const std::string_view section : {"sharing.timeSlicing.resources[]", "sharing.mps"}) {
      std::vector<const Key*> twins;
      std::ranges::copy_if(rows, std::back_inserter(twins), [&](const Key* key) { return twin_of(*key) == section; });
      if (!twins.empty()) text += twins_row(twins, section);
    }
  }
  return text + std::string(kForkHead) + of_fork + std::string(kUnusedHead) + join(unused, ", ", code) + ".\n";
}

std::string keyless_text() {
  std::string text;
  for (const Key& row : keyless_settings())
    text += fmt::format("- {}: {}\n", join(spellings_of(row), " "), row.meaning);
  return text;
}

Json mapping_below(const std::string& path);

Json enum_of(const Key& key) {
  Json words = Json::array();
  for (const auto word : key.words) words.push_back(word);
  // In YAML 1.1, unquoted off is the boolean false.
  if (std::ranges::find(key.words, "off") != key.words.end()) words.push_back(false);
  return {{"enum", words}};
}

Json schema_of(const Key& key) {
  const std::string path(key.path);
  if (key.type == KeyType::kText && key.origin == Origin::kUnused) return Json::object();
  Json choices = Json::array();
  for (const Json& choice : form_of(key.type).choices)
    choices.push_back(choice == kOneWord     ? enum_of(key)
                      : choice == kWordLists ? list_of(enum_of(key))
                      : choice == kMapping   ? mapping_below(path)
                      : choice == kMappings  ? list_of(mapping_below(path + "[]"))
                                             : choice);
  if (key.type == KeyType::kCount) choices[0].update({{"minimum", key.least}, {"maximum", key.most}});
  if (key.type == KeyType::kDriver) choices[0]["maxLength"] = key.most;
  return choices.size() == 1 ? choices[0] : Json{{"anyOf", choices}};
}

Json mapping_below(const std::string& path) {
  Json properties = Json::object();
  for (const Key& key : keys()) {
    if (key.path.empty() || key.section() != path) continue;
    Json& property = properties[std::string(key.name())] = schema_of(key);
    property["description"] = key.meaning;
    if (key.origin == Origin::kUnused) property["deprecated"] = true;
  }
  return {{"type", "object"}, {"properties", std::move(properties)}, {"additionalProperties", false}};
}

}  // namespace

std::string reference_text() {
  return std::string(kHead) + keys_text() + std::string(kRules) + keyless_text() + std::string(kPrecedence);
}

std::string schema_json() {
  Json schema{{"$schema", "https://json-schema.org/draft/2020-12/schema"},
              {"title", "Configuration of Tranche and of NVIDIA's device plugin (version: v1)"}};
  schema.update(mapping_below(""));
  return json_text(schema, 2) + "\n";
}

}  // namespace tranche::config
