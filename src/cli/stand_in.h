#pragma once
// Runs this program as one of NVIDIA's, selected by argv[0] or by a command: with their flags and variables, their
// paths (MPS state in /mps) and their exit statuses (1 for every failure). docs/compatibility/command-line.md has the
// table.
#include <optional>
#include <string>
#include <vector>

#include "cli/commands.h"

namespace tranche::cli {

// The exit status; absent if `program` (the last part of a path) is not such a name.
std::optional<int> stand_in(const std::string& program, const std::vector<std::string>& arguments, Process& process);

inline constexpr const char* kConfigManager = "config-manager";
int config_manager(const std::vector<std::string>& arguments, Process& process);

inline constexpr const char* kMigParted = "nvidia-mig-parted";
int mig_parted(const std::vector<std::string>& arguments, Process& process);

inline constexpr const char* kMigManager = "nvidia-mig-manager";
int mig_manager(const std::vector<std::string>& arguments, Process& process);

// `tranche device-plugin` and `tranche config-manager` are for the list of commands only; main runs them by NVIDIA's
// names.
void add_device_plugin(CLI::App& app, Process&);
void add_config_manager(CLI::App& app, Process&);

}  // namespace tranche::cli
