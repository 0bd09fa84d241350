#pragma once
// A Problem is a fault in a person's input (a configuration file, a flag, a variable, a simulator profile): what is
// wrong, where, and what to write instead. Parsers report all Problems of an input, not only the first.
#include <string>
#include <string_view>
#include <vector>

namespace tranche {

enum class Severity { kWarning, kError };

// A position in a person's input. line and column count from 1; 0 means the whole input, as for flags and variables.
struct Place {
  std::string source;  // file name, "--mig-strategy", "$MIG_STRATEGY"
  int line = 0;
  int column = 0;

  friend bool operator==(const Place&, const Place&) = default;
};

struct Problem {
  Severity severity = Severity::kError;
  Place place;
  std::string path;    // the field, as people write it: "sharing.mps.resources[0].replicas"
  std::string what;    // "must be a whole number, but is \"four\""
  std::string remedy;  // "write for example: replicas: 4"

  friend bool operator==(const Problem&, const Problem&) = default;
};

// An error, or a warning, in an input as a whole: a flag, a file, an object of the cluster.
Problem error_in(std::string source, std::string what, std::string remedy);
Problem warning_in(std::string source, std::string what, std::string remedy);

std::string to_string(const Place& place);      // "config.yaml:14:7"
std::string to_string(const Problem& problem);  // "config.yaml:14:7: error: sharing…: must be …; write …"
bool has_error(const std::vector<Problem>& problems);

// The candidate closest to `word` by edit distance, or "" if none is close enough.
std::string did_you_mean(std::string_view word, const std::vector<std::string_view>& candidates);

}  // namespace tranche
