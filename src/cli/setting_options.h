#pragma once
// Command-line options from the table of settings (config/keys.h), so that spellings and help have one source, and
// those that several of our commands have.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/commands.h"
#include "config/resolve.h"
#include "kube/client/find_access.h"
#include "labels/live/label_output.h"
#include "node/node_program.h"
#include "observe/cluster/agent_statuses.h"

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

// An option with a variable, which is named as its first flag: --node-name,-n is also $NODE_NAME. An empty variable
// counts as unset. The help shows the default, if there is one.
CLI::Option& add_variable_option(CLI::App& command, const std::string& flags, std::string& value,
                                 const std::string& help, const std::string& prefix = "");
// The same for a value that is not text: `usual` is the text of the default, and `take` receives the given one if the
// option's checks accept it.
using TakeText = std::function<void(const std::string&)>;
CLI::Option& add_variable_option(CLI::App& command, const std::string& flags, const std::string& usual,
                                 const std::string& help, const TakeText& take, const std::string& prefix = "");
// The same for an option of Tranche, so that a chart can set it: --run-dir is also $TRANCHE_RUN_DIR.
CLI::Option& add_own_option(CLI::App& command, const std::string& flag, auto&& value, const auto&... rest) {
  return add_variable_option(command, flag, value, rest..., "TRANCHE_");
}

// Directories, sockets and programs of a node that several commands have, with the same help.
void add_node_paths(CLI::App& command, node::NodePaths& paths);
void add_mps_root_here(CLI::App& command, std::string& value);
void add_mps_control(CLI::App& command, std::string& value);

void add_strict(CLI::App& command, config::UnknownKeys& unknown_keys);

// Of programs that run for long.
void add_log_options(CLI::App& command, LogOptions& options);
void apply(const LogOptions& options);
template <class Options>
struct Held {
  Options options;
  LogOptions log;
};
// The options of a program that starts now: it logs as asked from here on.
template <class Options>
Options& started(Held<Options>& held, const Process& process) {
  apply(held.log);
  held.options.environment = process.environment;
  return held.options;
}

// Of commands that query the node agents of a whole cluster, from anywhere with a kubeconfig.
struct ClusterOptions {
  std::string socket = "/run/tranche/node.sock";  // the status socket of this node's agent
  bool json = false;
  bool cluster = false;
  observe::AgentsAsked asked;
  std::optional<kube::PersonsAccess> access;  // of the first ask_agents()
};
// --kubeconfig and --context; `where` is the prefix of their help: "", "with --cluster: ".
void add_kubeconfig(CLI::App& command, kube::KubeconfigChoice& choice, const std::string& where);
// The same and --namespace, --selector and --status-port.
void add_agents_options(CLI::App& command, observe::AgentsAsked& asked, const std::string& where);
// --cluster, and the options above.
void add_cluster_options(CLI::App& command, ClusterOptions& options, const Process& process);
// The status document of the node agent of this machine. The error has the remedy.
Result<std::string> ask_node(const ClusterOptions& options, Duration deadline = std::chrono::seconds(5));
Result<std::vector<observe::AgentStatus>> ask_agents(ClusterOptions& options, const Process& process);

// --label-output. `words`: the values that this command accepts; `value` holds its default.
void add_label_output(CLI::App& command, labels::LabelOutput& value, const std::vector<std::string>& words);

}  // namespace tranche::cli
