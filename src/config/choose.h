#pragma once
// Which of several named configurations is in force on this node: the one that the node's label names, else the
// default, else what the fallback strategies find. A label that names none is an error and changes nothing on a node
// that has a configuration; one that has none yet goes on as if there were no label. What NVIDIA's config manager
// chooses, and where this differs: docs/compatibility/config-manager.md. Pure.
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/problem.h"

namespace tranche::config {

inline constexpr const char* kConfigLabel = "nvidia.com/device-plugin.config";

// Where named configurations are and what there is now.
struct NamedSet {
  std::string where;               // "ConfigMap gpu/configs", "/available-configs"
  std::optional<std::string> why;  // not known (not read, not there), with the reason
  std::vector<std::string> names;  // sorted
  friend bool operator==(const NamedSet&, const NamedSet&) = default;
};

struct LabelSeen {
  std::string key = kConfigLabel;
  std::string node;
  std::optional<std::string> why;  // not known, with the reason
  std::string value;               // "" is as good as none
  friend bool operator==(const LabelSeen&, const LabelSeen&) = default;
};

struct ChoiceRules {
  std::string default_name;
  std::vector<std::string> fallbacks;  // "named": one called "default"; "single": the only one; "empty": no settings
};

enum class ChosenBy { kLabel, kDefault, kNamed, kSingle, kEmpty };
std::string_view to_string(ChosenBy by);  // "label", "default", "named", "single", "empty"
std::optional<ChosenBy> chosen_by(std::string_view word);

struct Choice {
  std::string name;  // "" = the empty configuration
  ChosenBy by = ChosenBy::kEmpty;
  friend bool operator==(const Choice&, const Choice&) = default;
};

// By these alone. The Problem says which names there are and what to write.
std::expected<Choice, Problem> choose(const NamedSet& set, const LabelSeen& label, const ChoiceRules& rules);

struct Decision {
  std::optional<Choice> choice;  // absent: what is in force stays, and where there is nothing, there is still nothing
  std::vector<Problem> problems;
  friend bool operator==(const Decision&, const Decision&) = default;
};

// With what may be unknown now: `last_label` is what the label was when it was known last, in an earlier run perhaps.
Decision decide(const NamedSet& set, const LabelSeen& label, const ChoiceRules& rules,
                const std::optional<std::string>& last_label, bool something_in_force);

}  // namespace tranche::config
