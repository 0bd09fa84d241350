#pragma once
// The configuration in force, written down by the node agent: so that its next start knows it before the API server
// answers, and so that `tranche mps`, which asks no API server, follows the same choice
// (docs/internals/decisions/0013-configuration-per-node.md). A JSON document of one file. Pure; fuzzed: parse ∘ render
// is the identity.
#include <string>
#include <string_view>

#include "base/result.h"

namespace tranche::config {

struct ChosenConfig {
  std::string name;       // "" = none of several, or the empty one
  std::string chosen_by;  // a word of ChosenBy; "file" = named outright; "defaults" = no file at all
  std::string label;      // the node label's value when it was chosen
  std::string source;     // for Problems: "ConfigMap gpu/configs[mps-two]", a path; "" = none
  std::string text;       // whole
  friend bool operator==(const ChosenConfig&, const ChosenConfig&) = default;
};

std::string render_chosen(const ChosenConfig& chosen);
Result<ChosenConfig> parse_chosen(std::string_view text);

// What tells two contents apart for people and tests: 16 hexadecimal digits.
std::string content_hash(std::string_view text);

}  // namespace tranche::config
