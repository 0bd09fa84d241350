#pragma once
// Command-line options from the table of settings (config/settings.h), so that spellings and help have one source.
#include <string>
#include <vector>

#include "config/resolve.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace tranche::cli {

// `given` must exist until parsing is complete; it receives the values of the command line.
void add_settings(CLI::App& command, config::Program program, config::GivenFlags& given);

// Replaces `--help-config` by `--help` with the settings listed, which are hidden otherwise.
void show_settings(CLI::App& app, std::vector<std::string>& arguments);

// --config, the same as --config-file.
void add_config_alias(CLI::App& command, config::GivenFlags& given);

// An option of Tranche with a variable, so that a chart can set it: --run-dir is also $TRANCHE_RUN_DIR. An empty
// variable counts as unset. The help shows the default, if there is one.
CLI::Option& add_own_option(CLI::App& command, const std::string& flag, std::string& value, const std::string& help);
std::string own_variable(const std::string& flag);

void add_strict(CLI::App& command, bool& strict);
config::UnknownKeys unknown_keys(bool strict);

}  // namespace tranche::cli
