#include "config/reference.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/enum_names.h"
#include "base/text.h"
#include "config/keys.h"
#include "config/settings.h"

namespace tranche::config {
namespace {

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

std::string codes(const std::vector<std::string_view>& texts, std::string_view separator) {
  std::vector<std::string> parts;
  for (const auto text : texts) parts.push_back(code(text));
  return join(parts, separator);
}

// The words of a key, the default in bold.
std::string values_text(const Key& key) {
  std::vector<std::string> parts;
  for (const auto word : key.words) parts.push_back(word == key.usual ? "**" + code(word) + "**" : code(word));
  return join(parts, ", ");
}

std::string type_of(const Key& key) {
  switch (key.type) {
    case KeyType::kSection:
      return "mapping";
    case KeyType::kSections:
      return "list of mappings";
    case KeyType::kSwitch:
      return key.usual == "true"    ? "**`true`**, `false`"
             : key.usual == "false" ? "`true`, **`false`**"
                                    : "`true`, `false`";
    case KeyType::kText:
      return "string";
    case KeyType::kPath:
      return "path";
    case KeyType::kWord:
      return values_text(key);
    case KeyType::kWords:
      return "one or more of " + values_text(key);
    case KeyType::kCount:
      return fmt::format("{} to {}", key.least, key.most);
    case KeyType::kFactor:
      return "0.01 to 100";
    case KeyType::kDuration:
      return "duration";
    case KeyType::kProof:
      return "`0`, or a duration of at least 10s";
    case KeyType::kSize:
      return "size with a unit";
    case KeyType::kReserve:
      return values_text(key) + ", a size";
    case KeyType::kThreads:
      return values_text(key) + ", a factor, a number of SMs";
    case KeyType::kMemory:
      return values_text(key) + ", a factor, a size";
    case KeyType::kResource:
      return "resource name";
    case KeyType::kNames:
      return "string with `%d`, `%g` or `%m`";
    case KeyType::kDevices:
      return "`all`, a count, or a list of index, MIG index (`0:1`), UUID";
    case KeyType::kGpus:
      return "list of UUID, PCI address, index, model with `*`";
    case KeyType::kSomeGpus:
      return values_text(key) + ", or a list of UUID, PCI address, index, model with `*`";
    case KeyType::kIndex:
      return "index";
    case KeyType::kChannels:
      return "`[]`, `[0]`";
    case KeyType::kDriver:
      return "DNS subdomain";
  }
  return "";
}

constexpr Program kAllPrograms[] = {Program::kDevicePlugin, Program::kFeatureDiscovery, Program::kMpsControlDaemon};

// The flags and variables of every program that sets a key, each once.
std::string given_by(std::string_view path) {
  std::vector<std::string> spellings;
  const auto add = [&spellings](std::string text) {
    if (std::ranges::find(spellings, text) == spellings.end()) spellings.push_back(std::move(text));
  };
  for (const bool flags : {true, false})
    for (const Program program : kAllPrograms)
      for (const Setting& setting : settings_of(program)) {
        if (setting.path != path) continue;
        for (const auto name : flags ? setting.flags : setting.variables)
          add(code((!flags ? "" : name.size() == 1 ? "-" : "--") + std::string(name)));
      }
  return join(spellings, " ");
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

// Whether type_of() already shows the default among the values.
bool shows_default(const Key& key) {
  return key.type == KeyType::kSwitch || std::ranges::find(key.words, key.usual) != key.words.end();
}

std::string row_of(const Key& key) {
  constexpr KeyType kWithExample[] = {KeyType::kSections, KeyType::kThreads, KeyType::kNames, KeyType::kGpus};
  std::string values = type_of(key);
  if (std::ranges::find(kWithExample, key.type) != std::end(kWithExample) && key.sample != key.usual)
    values += ", such as " + code(key.sample);
  if (!key.usual.empty() && !shows_default(key)) values += ", **" + code(key.usual) + "**";
  const std::string given = given_by(key.path);
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
    std::vector<std::pair<std::string_view, std::vector<const Key*>>> twins;
    for (const Key* key : rows) {
      const auto section = twin_of(*key);
      if (section.empty()) {
        text += row_of(*key);
        continue;
      }
      auto of_section = std::ranges::find(twins, section, [](const auto& each) { return each.first; });
      if (of_section == twins.end()) of_section = twins.insert(twins.end(), {section, {}});
      of_section->second.push_back(key);
    }
    for (const auto& [section, of_section] : twins) text += twins_row(of_section, section);
  }
  return text + std::string(kForkHead) + of_fork + std::string(kUnusedHead) + codes(unused, ", ") + ".\n";
}

std::string flags_of(const Setting& setting) {
  std::vector<std::string> flags;
  for (const auto flag : setting.flags) flags.push_back(code((flag.size() == 1 ? "-" : "--") + std::string(flag)));
  return join(flags, " ");
}

// Settings without a key in the file: of every program, each once, with all its variables.
std::string keyless_text() {
  std::vector<Setting> rows;
  for (const Program program : kAllPrograms)
    for (const Setting& setting : settings_of(program)) {
      if (std::ranges::find(keys(), setting.path, &Key::path) != keys().end()) continue;
      const auto row = std::ranges::find(rows, setting.path, &Setting::path);
      if (row == rows.end()) {
        rows.push_back(setting);
        continue;
      }
      for (const auto variable : setting.variables)
        if (std::ranges::find(row->variables, variable) == row->variables.end()) row->variables.push_back(variable);
    }
  std::string text;
  for (const Setting& row : rows)
    text += fmt::format("- {} {}: {}\n", flags_of(row), codes(row.variables, " "), row.help);
  return text;
}

}  // namespace

std::string reference_text() {
  return std::string(kHead) + keys_text() + std::string(kRules) + keyless_text() + std::string(kPrecedence);
}

}  // namespace tranche::config
