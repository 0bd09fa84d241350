#pragma once
// Which of several named configurations applies to this node: the one that the node's label names, else the default,
// else the result of the fallback strategies. A label that names no existing configuration is an error. It changes
// nothing on a node that has a configuration; a node without one proceeds as if there were no label. Differences from
// NVIDIA's config manager: docs/compatibility/config-manager.md. Pure.
#include <expected>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/enum_names.h"
#include "base/problem.h"
#include "base/result.h"

namespace tranche::config {

inline constexpr const char* kConfigLabel = "nvidia.com/device-plugin.config";

// Several configurations and where they are: the files of a folder (a mounted ConfigMap), or the keys of a ConfigMap.
struct NamedConfigs {
  std::string where;                                      // for people: "ConfigMap gpu/configs", "/available-configs"
  std::optional<std::string> why = {};                    // why they are not known (not read, missing)
  bool pending = false;                                   // not known yet, but they may be shortly
  std::map<std::string, Result<std::string>> texts = {};  // by name; the reason, if it cannot be read
  std::map<std::string, std::string> sources = {};        // by name: for the places of Problems
  friend bool operator==(const NamedConfigs&, const NamedConfigs&) = default;
};

struct LabelSeen {
  std::string key = kConfigLabel;
  std::string node;
  std::optional<std::string> why;  // why it is not known
  std::string value = {};          // "" equals no label
  bool pending = false;            // not known yet, but it may be shortly
  friend bool operator==(const LabelSeen&, const LabelSeen&) = default;
};

struct ChoiceRules {
  std::string default_name;
  std::vector<std::string>
      fallbacks;  // "named": the one called "default"; "single": the only one; "empty": no settings
};

enum class ChosenBy { kLabel, kDefault, kNamed, kSingle, kEmpty };
ENUM_NAMES(ChosenBy::kEmpty, "label", "default", "named", "single", "empty")

struct Choice {
  std::string name;  // "" = the empty configuration
  ChosenBy by = ChosenBy::kEmpty;
  friend bool operator==(const Choice&, const Choice&) = default;
};

// Decides from these alone. The Problem lists the existing names and the remedy.
std::expected<Choice, Problem> choose(const NamedConfigs& set, const LabelSeen& label, const ChoiceRules& rules);

struct Decision {
  std::optional<Choice> choice;  // absent: the present configuration, if any, stays
  std::vector<Problem> problems;
  friend bool operator==(const Decision&, const Decision&) = default;
};

// Decides also if parts are unknown now: `last_label` is the last known label, perhaps from an earlier run.
Decision decide(const NamedConfigs& set, const LabelSeen& label, const ChoiceRules& rules,
                const std::optional<std::string>& last_label, bool something_in_force);

// The file in which the node agent records the configuration in effect, so that its next start knows it before the API
// server answers, and so that `tranche mps`, which does not use the API server, applies the same one
// (docs/internals/decisions/0013-configuration-per-node.md). A JSON document. Fuzzed: parse ∘ render is the identity.
struct ChosenConfig {
  std::string name{};       // "" = the only one, or the empty one
  std::string chosen_by{};  // a value of ChosenBy; "file" = given explicitly; "defaults" = no file; "" = none in effect
  std::string label{};      // the node label's value at that time
  std::string path{};       // for Problems: a file, "ConfigMap gpu/configs[mps-two]"; "" = none
  std::string text{};       // the complete text
  friend bool operator==(const ChosenConfig&, const ChosenConfig&) = default;
};

std::string render_chosen(const ChosenConfig& chosen);
Result<ChosenConfig> parse_chosen(std::string_view text);

// Identifies a content for people and tests: 16 hexadecimal digits.
std::string content_hash(std::string_view text);

}  // namespace tranche::config
