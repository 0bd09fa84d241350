#pragma once
// Text of a configuration file → Config, or every Problem in it with line and column. Accepts what NVIDIA's parser
// accepts (YAML 1.1 or JSON, its case rules, coercions and defaults); reports as warnings what that one ignores in
// silence (unknown keys, duplicate keys, settings that are read and then dropped). Pure; fuzzed. config/keys.h has
// every key.
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/problem.h"
#include "config/model.h"

namespace tranche::config {

struct Parsed {
  Config config;                       // meaningful only when !has_error(problems)
  std::vector<Problem> problems;       // in file order
  std::map<std::string, Place> given;  // which settings the file gives, by path: "flags.migStrategy"
  // Paths whose Problem is a word that is none of the allowed ones: a flag or variable for the same setting makes that
  // Problem void (resolve does), because NVIDIA's programs judge words only after they have applied those.
  std::set<std::string> bad_words;
};

// What becomes of keys that have no effect (unknown, in the wrong case, written twice): NVIDIA's programs ignore them
// in silence.
enum class UnknownKeys { kWarned, kRefused };

// `source` is the name put into Places, usually the path.
Parsed parse(std::string_view text, std::string_view source, UnknownKeys unknown_keys = UnknownKeys::kWarned);

}  // namespace tranche::config
