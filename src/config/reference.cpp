#include "config/reference.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "config/keys.h"
#include "config/settings.h"

namespace tranche::config {
namespace {

constexpr std::string_view kHead =
    R"(# Configuration reference

This page of the [reference](README.md) lists every key of a configuration file. `tranche check --config-reference` prints it. [Configure](../guide/configure.md) explains how files are read, checked and selected.

- **Origin**: NVIDIA's programs ignore keys marked *ours*. Keys marked *fork* are accepted so that the files of a fork work. Keys marked *not used* are checked but have no effect, as in NVIDIA's programs.
- **Read by**: `all`, or a list of programs. `node` is `tranche node` and `nvidia-device-plugin`; `mps` is `tranche mps` and `mps-control-daemon`; `labels` is `tranche labels`, `gpu-feature-discovery` and the labels that `tranche node`
  writes. `tranche plan` and `tranche check` check every key.
- **Precedence**: flag, variable, file, default.
- **Editors**: `tranche check --config-schema` prints [a JSON Schema](../../deploy/schema/config.schema.json). To use it, start a file with `# yaml-language-server: $schema=…/config.schema.json`.
)";

constexpr std::string_view kPrograms =
    R"(
## Flags and variables

The key tables above list the flags and variables of each key. These settings have no key:

| setting | flag | variable | meaning |
| --- | --- | --- | --- |
)";

constexpr std::string_view kRules =
    R"(
- Switches accept `1 t T true True TRUE 0 f F false False FALSE`.
- If several variables set a key, a program uses the first one that exists. Only `gpu-feature-discovery` and `tranche labels` read `GFD_…` variables, and they read them first.
- A variable that exists but is empty sets a text to empty (which can be invalid), a switch to false, and a list to one empty item. Empty numbers and durations are ignored.
- An invalid value in the file is not an error if a flag or variable overrides it.

| program | flags |
| --- | --- |
)";

std::string code(std::string_view text) {
  return "`" + std::string(text) + "`";
}

std::string codes(const std::vector<std::string_view>& texts, std::string_view separator) {
  std::vector<std::string> parts;
  for (const auto text : texts) parts.push_back(code(text));
  return join(parts, separator);
}

std::string in_words(const Key& key) {
  return codes(key.words, ", ");
}

std::string type_of(const Key& key) {
  switch (key.type) {
    case KeyType::kSection:
      return "mapping";
    case KeyType::kSections:
      return "list of mappings";
    case KeyType::kSwitch:
      return "`true`, `false`";
    case KeyType::kText:
      return "string";
    case KeyType::kPath:
      return "path";
    case KeyType::kWord:
      return in_words(key);
    case KeyType::kWords:
      return "one or more of " + in_words(key);
    case KeyType::kCount:
      return fmt::format("whole number from {} to {}", key.least, key.most);
    case KeyType::kFactor:
      return "number from 0.01 to 100";
    case KeyType::kDuration:
      return "duration";
    case KeyType::kProof:
      return "`0`, or a duration of at least 10s";
    case KeyType::kSize:
      return "size with a unit";
    case KeyType::kReserve:
      return in_words(key) + ", a size";
    case KeyType::kThreads:
      return in_words(key) + ", a factor, a number of SMs";
    case KeyType::kMemory:
      return in_words(key) + ", a factor, a size";
    case KeyType::kResource:
      return "resource name";
    case KeyType::kNames:
      return "string with `%d`, `%g` or `%m`";
    case KeyType::kDevices:
      return "`all`, a count, or a list of index, MIG index (`0:1`), UUID";
    case KeyType::kGpus:
      return "list of UUID, PCI address, index, model with `*`";
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
  switch (origin) {
    case Origin::kNvidia:
      return "";
    case Origin::kOurs:
      return "*ours*: ";
    case Origin::kFork:
      return "*fork*: ";
    case Origin::kUnused:
      return "*not used*: ";
  }
  return "";
}

// "../guide/share-sizes.md" → "share-sizes".
std::string_view stem_of(std::string_view path) {
  path.remove_prefix(path.rfind('/') + 1);  // npos + 1 is 0
  return path.substr(0, path.rfind('.'));
}

std::string row_of(const Key& key) {
  std::string meaning = std::string(mark_of(key.origin)) + std::string(key.meaning);
  if (!key.see.empty()) meaning += fmt::format(" ([{}]({}))", stem_of(key.see), key.see);
  constexpr KeyType kWithExample[] = {KeyType::kSections, KeyType::kWords, KeyType::kThreads,  KeyType::kMemory,
                                      KeyType::kReserve,  KeyType::kSize,  KeyType::kResource, KeyType::kNames,
                                      KeyType::kGpus,     KeyType::kText,  KeyType::kPath};
  const bool shown =
      std::ranges::find(kWithExample, key.type) != std::end(kWithExample) && key.origin != Origin::kUnused;
  const std::string example = !shown || key.sample == key.usual ? "" : "; such as " + code(key.sample);
  return fmt::format("| {} | {}{} | {} | {} | {} | {} |\n", code(key.path), type_of(key), example,
                     key.usual.empty() ? "none" : code(key.usual), given_by(key.path), key.readers, meaning);
}

// The heading of a key: its nearest section, except that small sections are listed with their parent.
std::string_view heading_of(std::string_view path) {
  for (const std::string_view section :
       {"flags.plugin", "flags.gfd", "sharing.timeSlicing", "sharing.mps.resources[]", "sharing.mps", "individualGPU",
        "resources", "devices", "dra", "imex", "flags"})
    if (path.starts_with(std::string(section) + ".")) return section;
  return path.starts_with("sharing") ? "sharing" : "";
}

std::string keys_text() {
  std::string text = "\n## Keys\n";
  std::vector<std::string_view> headings;
  for (const Key& key : keys()) {
    const bool shown = key.type != KeyType::kSection && !key.path.empty();
    if (shown && std::ranges::find(headings, heading_of(key.path)) == headings.end())
      headings.push_back(heading_of(key.path));
  }
  for (const auto heading : headings) {
    text += "\n### " + (heading.empty() ? "Top level" : code(heading)) + "\n\n";
    text += "| key | type or values | default | flags, variables | read by | meaning |\n";
    text += "| --- | --- | --- | --- | --- | --- |\n";
    for (const Key& key : keys())
      if (key.type != KeyType::kSection && heading_of(key.path) == heading) text += row_of(key);
  }
  return text;
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
    text += fmt::format("| {} | {} | {} | {} |\n", code(row.path), flags_of(row), codes(row.variables, " "), row.help);
  return text;
}

std::string program_text(std::string_view names, Program program) {
  std::vector<std::string> flags;
  for (const Setting& setting : settings_of(program)) flags.push_back(flags_of(setting));
  return fmt::format("| {} | {} |\n", names, join(flags, " "));
}

}  // namespace

std::string reference_text() {
  std::string text(kHead);
  text += keys_text();
  text += kPrograms;
  text += keyless_text();
  text += kRules;
  text += program_text("`nvidia-device-plugin`; `tranche` with `node`, `mps`, `plan`, `check`, `verify`, `reset`",
                       Program::kDevicePlugin);
  text += program_text("`gpu-feature-discovery`, `tranche labels`", Program::kFeatureDiscovery);
  return text + program_text("`mps-control-daemon`", Program::kMpsControlDaemon);
}

}  // namespace tranche::config
