#pragma once
// Parses a command line as NVIDIA's programs do (cli/go_arguments.h), when this program is called by a name of theirs.
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace tranche::cli {

struct Process;

bool is_folder(const std::filesystem::path& path);
// The value of the flag, else of the variable, else `otherwise`. A variable that is present and empty disables a
// switch, as in all of NVIDIA's programs. Absent: it is neither true nor false.
std::optional<bool> switch_of(const std::string& flag, const char* variable, bool otherwise, const Process& process);

// The exit status if there is nothing more to do (help, version, an invalid word: 1). `rest` receives all words from
// the first that is not a flag.
std::optional<int> read_as_nvidias(CLI::App& app, const std::vector<std::string>& arguments,
                                   std::vector<std::string>& rest);
void warn_of_ignored(const CLI::App& app, const std::vector<std::string>& rest);
std::optional<int> read_as_nvidias(CLI::App& app, const std::vector<std::string>& arguments);  // both

}  // namespace tranche::cli
