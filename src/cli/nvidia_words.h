#pragma once
// Reading a command line as NVIDIA's programs read theirs (cli/go_words.h), for those of their names that this one
// answers to.
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace tranche::cli {

// The exit status where there is nothing more to do (help, version, a word that is wrong: 1). `rest` gets everything
// from the first word that is no flag.
std::optional<int> read_as_nvidias(CLI::App& app, const std::vector<std::string>& arguments,
                                   std::vector<std::string>& rest);
void warn_of_ignored(const CLI::App& app, const std::vector<std::string>& rest);

}  // namespace tranche::cli
