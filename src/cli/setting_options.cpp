#include "cli/setting_options.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/enum_names.h"
#include "base/text.h"
#include "os/log/log.h"
#include "os/socket/status_socket.h"

namespace tranche::cli {
namespace {

using config::KeyType;

constexpr const char* kGroup = "Configuration (flag over variable over file over default)";

std::string spelling_of(const config::Key& setting) {
  return join(setting.flags, ",", [](auto flag) { return (flag.size() == 1 ? "-" : "--") + std::string(flag); });
}

std::string help_with_variables(const config::Key& setting) {
  std::string help = config::help_of(setting);
  for (const auto variable : setting.variables) help += " [$" + std::string(variable) + "]";
  return help;
}

}  // namespace

void add_settings(CLI::App& command, config::Program program, config::GivenFlags& given) {
  // NVIDIA's programs show all settings; subcommands have flags of their own, which users look for more often.
  const bool hidden = command.get_parent() != nullptr;
  const std::string group = hidden ? "" : kGroup;
  const std::string help_config =
      "also list the flags and variables of the configuration";  // a named variable, as below
  if (hidden) command.add_flag("--help-config", help_config);
  for (const auto& setting : config::settings_of(program)) {
    const std::string name(setting.flags.front());
    if (setting.type == KeyType::kSwitch) {  // --x, --x=true, --x=false; never the next word
      const std::string help =
          help_with_variables(setting);  // named: CLI11 would treat a temporary as a variable to fill
      command.add_flag(spelling_of(setting), help)->group(group)->each([&given, name](const std::string& value) {
        given[name] = {value};
      });
      continue;
    }
    const bool list =
        setting.type == KeyType::kTexts || setting.type == KeyType::kWordList || setting.type == KeyType::kChannels;
    const auto take = [&given, name](const CLI::results_t& values) {
      given[name] = values;
      return true;
    };
    command.add_option(spelling_of(setting), take, help_with_variables(setting))
        ->group(group)
        ->expected(1)
        ->type_name(list ? "LIST" : "TEXT")
        ->multi_option_policy(list ? CLI::MultiOptionPolicy::TakeAll : CLI::MultiOptionPolicy::TakeLast);
  }
}

void show_settings(CLI::App& app, std::vector<std::string>& arguments) {
  const auto asked = std::ranges::find(arguments, "--help-config");
  if (asked == arguments.end()) return;
  *asked = "--help";
  for (CLI::App* command : app.get_subcommands({}))
    for (CLI::Option* option : command->get_options())
      if (option->get_group().empty()) option->group(kGroup);
}

void add_config_alias(CLI::App& command, config::GivenFlags& given) {
  const auto take = [&given](const std::string& file) { given["config-file"] = {file}; };
  command.add_option_function<std::string>("--config", take, "the same as --config-file")->type_name("TEXT");
}

CLI::Option& add_variable_option(CLI::App& command, const std::string& flags, std::string& value,
                                 const std::string& help, const std::string& prefix) {
  const auto take = [&value](const std::string& text) { value = text; };
  return add_variable_option(command, flags, value, help, take, prefix);
}

CLI::Option& add_variable_option(CLI::App& command, const std::string& flags, const std::string& usual,
                                 const std::string& help, const TakeText& take, const std::string& prefix) {
  std::string variable = prefix + flags.substr(2, flags.find(',') - 2);
  for (char& c : variable) c = c == '-' ? '_' : c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return *command.add_option_function<std::string>(flags, take, help)->envname(variable)->default_str(usual);
}

void add_node_paths(CLI::App& command, node::NodePaths& paths) {
  add_own_option(command, "--run-dir", paths.run_dir,
                 "the node agent's directory; its status socket node.sock is in it");
  add_own_option(command, "--plugin-dir", paths.plugin_dir, "kubelet's device plugin directory");
  add_own_option(command, "--pod-resources-socket", paths.pod_resources_socket,
                 "kubelet's socket that lists which pod holds which devices");
  add_own_option(command, "--cdi-root", paths.cdi_root, "directory of CDI specifications");
}

void add_mps_root_here(CLI::App& command, std::string& value) {
  add_own_option(command, "--mps-root-ctr-path", value,
                 "where --mps-root is for this process, if not at the same path");
}

void add_mps_control(CLI::App& command, std::string& value) {
  add_own_option(command, "--mps-control", value,
                 "path of nvidia-cuda-mps-control; looked for under the driver root and in PATH by default");
}

void add_strict(CLI::App& command, config::UnknownKeys& unknown_keys) {
  command
      .add_flag_callback(
          "--strict", [&unknown_keys] { unknown_keys = config::UnknownKeys::kRefused; },
          "keys of the file that have no effect (unknown, wrong case, repeated) are errors")
      ->envname("TRANCHE_STRICT");
}

void add_log_options(CLI::App& command, LogOptions& options) {
  add_own_option(command, "--log-format", options.format, "text (the default on a terminal) or json (elsewhere)")
      .check(CLI::IsMember({"auto", "text", "json"}));
  add_own_option(command, "--log-level", options.level, "the least level that is logged")
      .check(CLI::IsMember({"debug", "info", "warning", "error"}));
}

void apply(const LogOptions& options) {
  const bool text = options.format == "text" || (options.format == "auto" && ::isatty(STDERR_FILENO) != 0);
  log::configure(text ? log::Format::kText : log::Format::kJson,
                 enum_of<log::Level>(options.level).value_or(log::Level::kInfo));
}

void add_kubeconfig(CLI::App& command, kube::KubeconfigChoice& choice, const std::string& where) {
  command
      .add_option("--kubeconfig", choice.files,
                  where +
                      "how to reach the API server; default: $KUBECONFIG (one file or several), ~/.kube/config, or "
                      "the service account of the pod")
      ->envname("KUBECONFIG");
  command.add_option("--context", choice.context, where + "context of the kubeconfig; default: the current one");
}

void add_agents_options(CLI::App& command, observe::AgentsAsked& asked, const std::string& where) {
  add_kubeconfig(command, asked.kubeconfig, where);
  command.add_option("--namespace", asked.pod_namespace, where + "namespace of the agents; other pods are not asked");
  command.add_option("--selector", asked.selector, where + "labels of the agents' pods");
  command.add_option("--status-port", asked.status_port,
                     where + "port of the agents' status page, where a pod names no port \"metrics\"");
}

void add_cluster_options(CLI::App& command, ClusterOptions& options, const Process& process) {
  options.cluster = process.as_plugin;
  command.add_flag("--cluster", options.cluster,
                   "ask the agents of all nodes, through the API server; they report less than on their node");
  add_agents_options(command, options.asked, "with --cluster: ");
}

Result<std::string> ask_node(const ClusterOptions& options, Duration deadline) {
  auto answer = os::ask(options.socket, "status", deadline);
  if (answer) return answer;
  return fail(
      Kind::kUnavailable,
      "no answer from the node agent: " + to_string(answer.error()) +
          "\n  Run it on a node, in the agent's pod; the socket of `tranche node` is <run-dir>/node.sock: name it "
          "with --socket. From another machine, ask through the API server: `tranche status --node NAME`, "
          "`tranche top --cluster`, `tranche why --cluster NAME`.");
}

Result<std::vector<observe::AgentStatus>> ask_agents(ClusterOptions& options, const Process& process) {
  if (!options.access) options.access.emplace(options.asked.kubeconfig, process.environment);
  return observe::agent_statuses(*options.access, options.asked);
}

void add_label_output(CLI::App& command, labels::LabelOutput& value, const std::vector<std::string>& words) {
  add_own_option(command, "--label-output", std::string(to_string(value)), "where node labels are written",
                 [&value](const std::string& word) { value = enum_of<labels::LabelOutput>(word).value_or(value); })
      .check(CLI::IsMember(words));
}

}  // namespace tranche::cli
