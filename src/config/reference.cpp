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

Every key of a configuration file. This page is what `tranche check --config-reference` prints: it comes from the table by which the parser knows keys, and a test compares the two
(`ConfigReference.*`). [configure](../guide/configure.md) says how files are read, checked and chosen; [share sizes](../guide/share-sizes.md) what shares are worth.

- **Keys** marked *ours* are additions that NVIDIA's programs ignore; *fork* ones are taken so that a fork's files work; *not used* ones are checked and have no effect, as in NVIDIA's programs.
- **Read by**: `node` is `tranche node` and `nvidia-device-plugin`, `mps` is `tranche mps` and `mps-control-daemon`, `labels` is `tranche labels`, `gpu-feature-discovery`, and the labels that `tranche node`
  writes. `tranche plan` and `tranche check` judge every key.
- Precedence: flag, then variable, then file, then default. A program that does not have the flag reads the file.
- Editors: `tranche check --config-schema` prints [a JSON Schema](../../deploy/schema/config.schema.json); write `# yaml-language-server: $schema=…/config.schema.json` in the first line of a file.
)";

constexpr std::string_view kPrograms =
    R"(
## Flags and variables

A variable that is present and empty: a text becomes empty (and is then judged), a switch becomes false, a list becomes one empty word (which is no strategy);
numbers and durations ignore it. Of several variables in a row the first that exists counts. Switches take `1 t T true True TRUE 0 f F false False FALSE`. A word in the
file that is wrong, but is overridden by a flag or variable, is no fault. Names without a dot have no key in the file.
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
      return "text";
    case KeyType::kPath:
      return "path";
    case KeyType::kWord:
      return in_words(key);
    case KeyType::kWords:
      return "one or a list of " + in_words(key);
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
      return "text with `%d`, `%g` or `%m`";
    case KeyType::kDevices:
      return "`all`, a count, or a list of index, MIG index (`0:1`), UUID";
    case KeyType::kGpus:
      return "list of UUID, PCI address, index, model with `*`";
    case KeyType::kIndex:
      return "index";
    case KeyType::kChannels:
      return "`[]`, `[0]`";
  }
  return "";
}

// The flags and variables of every program that sets a key, each once.
std::string given_by(std::string_view path) {
  std::vector<std::string> spellings;
  const auto add = [&spellings](std::string text) {
    if (std::ranges::find(spellings, text) == spellings.end()) spellings.push_back(std::move(text));
  };
  constexpr Program kAllPrograms[] = {Program::kDevicePlugin, Program::kFeatureDiscovery, Program::kMpsControlDaemon};
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

std::string row_of(const Key& key) {
  std::string meaning = std::string(mark_of(key.origin)) + std::string(key.meaning);
  if (!key.see.empty()) meaning += fmt::format(" ([{0}]({0}))", key.see);
  return fmt::format("| {} | {} | {} | {} | {} | {} | {} |\n", code(key.path), type_of(key),
                     key.usual.empty() ? "none" : code(key.usual), code(key.sample), given_by(key.path), key.readers,
                     meaning);
}

// The heading under which a key stands: its nearest section, except that small ones stay with what they belong to.
std::string_view heading_of(std::string_view path) {
  for (const std::string_view section : {"flags.plugin", "flags.gfd", "sharing.timeSlicing", "sharing.mps.resources[]",
                                         "sharing.mps", "individualGPU", "resources", "devices", "imex", "flags"})
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
    text += "\n### " + (heading.empty() ? "The whole" : code(heading)) + "\n\n";
    text += "| key | type, values | default | example | flag, variable | read by | meaning |\n";
    text += "| --- | --- | --- | --- | --- | --- | --- |\n";
    for (const Key& key : keys())
      if (key.type != KeyType::kSection && heading_of(key.path) == heading) text += row_of(key);
  }
  return text;
}

std::string program_text(std::string_view heading, Program program) {
  std::string text =
      fmt::format("\n### {}\n\n| flag | variable | sets | meaning |\n| --- | --- | --- | --- |\n", heading);
  for (const Setting& setting : settings_of(program)) {
    std::vector<std::string> flags;
    for (const auto flag : setting.flags) flags.push_back(code((flag.size() == 1 ? "-" : "--") + std::string(flag)));
    text += fmt::format("| {} | {} | {} | {} |\n", join(flags, " "), codes(setting.variables, " "), code(setting.path),
                        setting.help);
  }
  return text;
}

}  // namespace

std::string reference_text() {
  std::string text(kHead);
  text += keys_text();
  text += kPrograms;
  text += program_text("nvidia-device-plugin, tranche node, mps, plan, check, verify, reset", Program::kDevicePlugin);
  text += program_text("gpu-feature-discovery, tranche labels", Program::kFeatureDiscovery);
  return text + program_text("mps-control-daemon", Program::kMpsControlDaemon);
}

}  // namespace tranche::config
