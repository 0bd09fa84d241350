#pragma once
// Every subcommand adds itself to the command line and, if it is selected, stores its exit status in `exit_code`. Exit
// statuses: 0 success, 1 failure, 2 usage or configuration, 3 nothing to do on this node; for `plan`: nothing is
// offered, a pod cannot be scheduled, or two configurations differ.
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/problem.h"
#include "base/result.h"
#include "config/resolve.h"

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace tranche::cli {

struct Process {
  config::Environment environment;  // of this process, read once in main
  bool terminal = false;            // stdout is a terminal: colour is possible
  int width = 0;                    // of the terminal in columns; 0 = stdout is not a terminal
  bool as_plugin = false;           // called as `kubectl tranche`: commands ask the cluster
  int exit_code = 0;
  // Set by a program that runs for long. Called when the command line is read and its options are no longer in memory.
  std::function<int()> run{};
};

// Options of long-running programs.
struct LogOptions {
  std::string format = "auto";
  std::string level = "info";
};

void add_check(CLI::App& app, Process& process);
void add_plan(CLI::App& app, Process& process);
void add_status(CLI::App& app, Process& process);
void add_top(CLI::App& app, Process& process);
void add_why(CLI::App& app, Process& process);
void add_web(CLI::App& app, Process& process);
void add_verify(CLI::App& app, Process& process);
void add_labels(CLI::App& app, Process& process);
void add_probe(CLI::App& app, Process& process);
void add_reset(CLI::App& app, Process& process);
void add_demo(CLI::App& app, Process& process);
void add_version(CLI::App& app, Process& process);
void add_completion(CLI::App& app, Process& process);
void add_node(CLI::App& app, Process& process);
void add_mps(CLI::App& app, Process& process);

std::string version_text();  // of `tranche version`

// The end of a command line that is not executed: help and version, or a sentence on the error with the nearest flag or
// command. Prints, and returns the exit status: 0 for help and version, `usage_status` for everything else.
int leave(CLI::App& app, const CLI::ParseError& error, int usage_status);

// The text of a file; "-" is the standard input.
Result<std::string> read_given(const std::string& path, std::size_t limit = 1 << 20);

// Prints `tranche COMMAND: what` on standard error, and returns the exit status.
int failed(std::string_view command, std::string_view what, int status = 1);

// One line each, on standard error; whether one of them is an error.
bool print_problems(const std::vector<Problem>& problems);

// Runs this program as one of NVIDIA's, selected by argv[0] or by a command: with their flags and variables, their
// paths (MPS state in /mps) and their exit statuses (1 for every failure). docs/compatibility/command-line.md has the
// table.

// The exit status; absent if `program` (the last part of a path) is not such a name, or one of the commands for them.
std::optional<int> stand_in(const std::string& program, const std::vector<std::string>& arguments, Process& process);

inline constexpr const char* kConfigManager = "config-manager";

inline constexpr const char* kMigParted = "nvidia-mig-parted";
int mig_parted(const std::vector<std::string>& arguments, Process& process);

inline constexpr const char* kMigManager = "nvidia-mig-manager";
int mig_manager(const std::vector<std::string>& arguments, Process& process);

// What these programs share. Their command lines are parsed as NVIDIA's programs do, with the rules of Go's flag
// package: one dash equals two, a value may follow after "=" (even an empty one), and parsing ends at the first word
// that is not a flag.

struct GoArguments {
  std::vector<std::string> words;  // flags with two dashes; each value of a non-switch is a separate word
  std::vector<std::string> rest;   // from the first word that is not a flag: NVIDIA's programs ignore it
  friend bool operator==(const GoArguments&, const GoArguments&) = default;
};
// `takes_value` returns for a flag's name, without dashes, whether the next word is its value. Pure.
GoArguments read_go_arguments(const std::vector<std::string>& arguments,
                              const std::function<bool(std::string_view)>& takes_value);

inline constexpr const char* kKubeconfigHelp = "how to reach the API server; empty: as every pod is given it";

bool is_folder(const std::filesystem::path& path);

// The exit status if there is nothing more to do (help, version, an invalid word: 1). Warns of words that are ignored.
std::optional<int> read_as_nvidias(CLI::App& app, const std::vector<std::string>& arguments);

}  // namespace tranche::cli
