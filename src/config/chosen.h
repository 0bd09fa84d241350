#pragma once
// The file in which the node agent records the configuration in effect, so that its next start knows it before the API
// server answers, and so that `tranche mps`, which does not use the API server, applies the same one
// (docs/internals/decisions/0013-configuration-per-node.md). A JSON document of one file. Pure; fuzzed: parse ∘ render
// is the identity.
#include <string>
#include <string_view>

#include "base/result.h"

namespace tranche::config {

struct ChosenConfig {
  std::string name;       // "" = the only one, or the empty one
  std::string chosen_by;  // a value of ChosenBy; "file" = given explicitly; "defaults" = no file at all
  std::string label;      // the node label's value at that time
  std::string source;     // for Problems: "ConfigMap gpu/configs[mps-two]", a path; "" = none
  std::string text;       // the complete text
  friend bool operator==(const ChosenConfig&, const ChosenConfig&) = default;
};

std::string render_chosen(const ChosenConfig& chosen);
Result<ChosenConfig> parse_chosen(std::string_view text);

// Identifies a content for people and tests: 16 hexadecimal digits.
std::string content_hash(std::string_view text);

}  // namespace tranche::config
