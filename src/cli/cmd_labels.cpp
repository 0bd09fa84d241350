#include <CLI/CLI.hpp>
#include <memory>

#include "cli/shared_commands.h"

namespace tranche::cli {
namespace {

constexpr const char* kLabelsDescription =
    "the labels that describe the GPUs of this node: prints them, or keeps them written where the cluster looks";
constexpr const char* kLabelsTeaching =
    "Examples:\n"
    "  tranche labels                            what this node's labels would be, with this configuration\n"
    "  tranche labels --json                     the same, and which model speaks for a node of several\n"
    "  tranche labels --label-output node        on the Node itself, until stopped; needs no other component\n"
    "  tranche labels --label-output nodefeature for node feature discovery, as a NodeFeature object\n"
    "  tranche labels --label-output file        for node feature discovery, as a file in its folder\n"
    "  tranche labels --label-output node --remove   takes away exactly those that we set\n"
    "Exit status: 0 printed, written or stopped by a signal; 1 no driver, or the labels cannot be written; 2 a "
    "configuration\n"
    "or command line that cannot be used. docs/reference/labels.md lists every label.";

}  // namespace

void add_feature_options(CLI::App& command, FeatureCommand& held) {
  auto& o = held.options;
  add_settings(command, config::Program::kFeatureDiscovery, o.flags);
  add_variable_option(command, "--kubeconfig", o.kubeconfig,
                      "how to reach the API server; by default the service account of this pod");
  add_variable_option(command, "--namespace", o.target.feature_namespace, "of the NodeFeature object");
  add_variable_option(command, "--node-name", o.target.node_name, "what the cluster calls this node");
  add_variable_option(command, "--pod-name", o.target.pod_name,
                      "name of this pod; its DaemonSet owns the NodeFeature object");
  for (const char* flag : {"--kube-api-qps", "--kube-api-burst"})
    add_variable_option(command, flag, held.ignored, "accepted for compatibility; no effect").check(CLI::Number);
  add_own_option(command, "--system-root", o.system_root, "what /sys and /usr/share are looked up under");
  add_strict(command, o.unknown_keys);
  add_log_options(command, held.log);
}

void add_labels(CLI::App& app, Process& process) {
  auto held = std::make_shared<FeatureCommand>();
  auto* command = app.add_subcommand("labels", kLabelsDescription);
  add_feature_options(*command, *held);
  add_config_alias(*command, held->options.flags);
  add_label_output(*command, held->options.output.emplace(labels::LabelOutput::kStdout),
                   {"stdout", "file", "nodefeature", "node"});
  command->add_flag("--json", held->options.json, "what is printed as JSON, with notes");
  command->add_flag("--remove", held->options.remove, "remove Tranche's labels from --label-output, and exit");
  command->footer(kLabelsTeaching);
  command->callback([held, &process] {
    held->options.once = held->options.output == labels::LabelOutput::kStdout;
    process.exit_code = labels::run_feature_discovery(started(*held, process));
  });
}

}  // namespace tranche::cli
