#pragma once
// Runs this program as one of NVIDIA's, selected by argv[0] or by a command: with their flags and variables, their
// paths (MPS state in /mps) and their exit statuses (1 for every failure). docs/compatibility/command-line.md has the
// table.
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.h"

namespace tranche::cli {

// The exit status; absent if `program` (the last part of a path) is not such a name.
std::optional<int> stand_in(const std::string& program, const std::vector<std::string>& arguments, Process& process);

inline constexpr const char* kConfigManager = "config-manager";

inline constexpr const char* kMigParted = "nvidia-mig-parted";
int mig_parted(const std::vector<std::string>& arguments, Process& process);

inline constexpr const char* kMigManager = "nvidia-mig-manager";
int mig_manager(const std::vector<std::string>& arguments, Process& process);

// `tranche device-plugin` and `tranche config-manager` are for the list of commands only; main runs them by NVIDIA's
// names.
void add_device_plugin(CLI::App& app, Process&);
void add_config_manager(CLI::App& app, Process&);

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

// A switch with a variable. One that is present and empty disables it, as in all of NVIDIA's programs.
struct Switch {
  const char* variable;
  bool on = false;     // the default, until it is read
  std::string text{};  // of the flag
};
void add_switch(CLI::App& app, const std::string& flags, Switch& value, const std::string& help);
bool read_switch(Switch& value, const Process& process);  // false: it is neither true nor false

// The exit status if there is nothing more to do (help, version, an invalid word: 1). `rest` receives all words from
// the first that is not a flag.
std::optional<int> read_as_nvidias(CLI::App& app, const std::vector<std::string>& arguments,
                                   std::vector<std::string>& rest);
void warn_of_ignored(const CLI::App& app, const std::vector<std::string>& rest);
std::optional<int> read_as_nvidias(CLI::App& app, const std::vector<std::string>& arguments);  // both

}  // namespace tranche::cli
