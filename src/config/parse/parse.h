#pragma once
// Text of a configuration file → Config, or all Problems in it with line and column. Accepts what NVIDIA's parser
// accepts (YAML 1.1 or JSON, its case rules, coercions and defaults) and warns about what that parser ignores silently
// (unknown keys, duplicate keys, settings that are read and then dropped). config/keys.h has all keys. Pure; fuzzed.
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/problem.h"
#include "config/model.h"

namespace tranche::config {

struct Parsed {
  Config config;                       // valid only if !has_error(problems)
  std::vector<Problem> problems;       // in file order
  std::map<std::string, Place> given;  // the settings in the file, by path: "flags.migStrategy"
  // Paths with a Problem because their value is not an allowed word. A flag or variable for the same setting cancels
  // that Problem (resolve does), because NVIDIA's programs check these values only after they have applied flags.
  std::set<std::string> bad_words;
};

// How keys without effect (unknown, in the wrong case, duplicate) are reported: NVIDIA's programs ignore them silently.
enum class UnknownKeys { kWarned, kRefused };

// `source` is the name used in Places, usually the path; "" = there is no file, and an empty text is the defaults. An
// empty file is an error, and so is one that names `sharing` and shares nothing: it would make every GPU whole.
// `sharing:
// {}` and version: v1 alone are on purpose.
Parsed parse(std::string_view text, std::string_view source, UnknownKeys unknown_keys = UnknownKeys::kWarned);

}  // namespace tranche::config
