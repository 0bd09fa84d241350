#pragma once
// Parses a command line as NVIDIA's programs do, with the rules of Go's flag package: one dash equals two, a value may
// follow after "=" (even an empty one), and parsing ends at the first word that is not a flag. Pure.
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tranche::cli {

struct GoArguments {
  std::vector<std::string> words;  // flags with two dashes; each value of a non-switch is a separate word
  std::vector<std::string> rest;   // from the first word that is not a flag: NVIDIA's programs ignore it
  friend bool operator==(const GoArguments&, const GoArguments&) = default;
};

// `takes_value` returns for a flag's name, without dashes, whether the next word is its value.
GoArguments read_go_arguments(const std::vector<std::string>& arguments,
                              const std::function<bool(std::string_view)>& takes_value);

}  // namespace tranche::cli
