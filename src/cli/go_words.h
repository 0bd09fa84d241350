#pragma once
// How NVIDIA's programs read a command line, which is how Go's flag package does: one dash is as good as two, a value
// may follow after "=" (also an empty one), and reading ends at the first word that is no flag. Pure.
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tranche::cli {

struct GoWords {
  std::vector<std::string> words;  // flags with two dashes; a value that is no switch's is a word of its own
  std::vector<std::string> rest;   // from the first word that is no flag: those programs never look at it
  friend bool operator==(const GoWords&, const GoWords&) = default;
};

// `takes_value` says of a flag's name, without dashes, whether the next word is its value.
GoWords read_go_words(const std::vector<std::string>& arguments,
                      const std::function<bool(std::string_view)>& takes_value);

}  // namespace tranche::cli
