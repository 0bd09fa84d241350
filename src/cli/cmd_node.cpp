#include <CLI/CLI.hpp>

#include "base/enum_names.h"
#include "base/text.h"
#include "cli/setting_options.h"
#include "cli/shared_commands.h"
#include "config/document/amounts.h"

namespace tranche::cli {
namespace {

constexpr Duration kShortestPeriod = std::chrono::milliseconds(100);
constexpr Duration kLongestPeriod = std::chrono::hours(24);

std::optional<Duration> period_of(const std::string& text) {
  const auto period = config::parse_duration(text);
  return period && *period >= kShortestPeriod && *period <= kLongestPeriod ? period : std::nullopt;
}

std::string check_period(const std::string& text) {
  if (period_of(text)) return {};
  return in_quotes(text) + " is not a duration from 100ms to 24h; write for example 5m";
}

constexpr const char* kPlaces = "Configuration of this node among several";

void add_config_places(CLI::App& command, NodeCommand& held) {
  auto& places = held.options.config;
  add_own_option(command, "--config-dir", places.dir,
                 "folder of several configurations, such as a mounted ConfigMap; the node's label says which is in "
                 "effect, and a change of either is followed")
      .envname("CONFIG_FILE_SRCDIR")
      ->group(kPlaces);
  add_own_option(command, "--config-map", places.config_map,
                 "NAMESPACE/NAME of a ConfigMap with several configurations, watched through the API server")
      .group(kPlaces);
  add_variable_option(command, "--default-config", places.default_name, "the one for nodes without the label")
      .group(kPlaces);
  add_variable_option(
      command, "--fallback-strategies", held.fallbacks,
      "where there is neither label nor default: named (one called default), single (the only one), empty "
      "(no settings), in the order given")
      .group(kPlaces);
  add_own_option(command, "--config-wait", held.config_wait,
                 "how long the label and the ConfigMap are waited for at the start, before what was written down "
                 "last, or the default, counts")
      .check(check_period)
      ->group(kPlaces);
  add_variable_option(command, "--node-label", places.label, "the label of the node that names its configuration")
      .group(kPlaces);
}

constexpr const char* kMig = "MIG manager";

void add_mig_options(CLI::App& command, NodeCommand& held) {
  auto& mig = held.options.mig;
  const auto truth = CLI::IsMember({"true", "false"});
  add_own_option(command, "--mig-manager", held.mig_manager,
                 "true: partition GPUs by MIG as the node's label nvidia.com/mig.config asks; stays off where the GPU "
                 "Operator runs its own MIG manager")
      .check(truth)
      ->group(kMig);
  add_own_option(command, "--mig-config-file", mig.config_file,
                 "file of MIG configurations in mig-parted's format, followed when it changes; the default names "
                 "(all-disabled, all-balanced, all-1g.10gb and so on) exist without one")
      .group(kMig);
  add_own_option(command, "--mig-config-map", mig.config_map,
                 "NAMESPACE/NAME of a ConfigMap whose key config.yaml has them, watched through the API server")
      .excludes("--mig-config-file")
      ->group(kMig);
  add_own_option(command, "--mig-default-config", mig.default_name,
                 "the configuration of a node without the label; without one such a node is left alone")
      .group(kMig);
  add_own_option(command, "--mig-evict-after", held.mig_evict_after,
                 "how long a change waits for pods that hold MIG devices which it removes, before it evicts them "
                 "through the Eviction API; never by default")
      .check(check_period)
      ->group(kMig);
  add_own_option(command, "--mig-reset", held.mig_reset,
                 "true: reset a GPU that nothing uses when its MIG mode change needs that (Ampere)")
      .check(truth)
      ->group(kMig);
}

}  // namespace

void add_node_options(CLI::App& command, NodeCommand& held) {
  auto& o = held.options;
  add_settings(command, config::Program::kDevicePlugin, o.flags);
  add_config_places(command, held);
  add_mig_options(command, held);
  add_places(command, {{"--plugin-dir", &o.plugin_dir},
                       {"--pod-resources-socket", &o.pod_resources_socket},
                       {"--run-dir", &o.run_dir},
                       {"--mps-root-ctr-path", &o.mps_root_here},
                       {"--cdi-root", &o.cdi_root}});
  add_own_option(command, "--system-root", o.system_root,
                 "where the node's /dev and /sys are for this process: watched for GPUs being added or removed");
  add_own_option(command, "--program-dir", o.program_dir,
                 "folder of the node that tranche-drain is put into for preStop hooks that still name it; empty: none");
  add_own_option(command, "--health-quiet-period", held.quiet_period,
                 "how long a GPU must be without a fault before it takes pods again; repeated faults double it")
      .check(check_period);
  add_own_option(
      command, "--kubeconfig", o.kubeconfig,
      "kubeconfig of the API server; default: the pod's service account; outside a pod the API server is not used");
  add_variable_option(command, "--node-name", o.node_name, "what the cluster calls this node");
  add_label_output(command, held.label_output, {"none", "file", "nodefeature", "node"});
  add_variable_option(command, "--namespace", o.feature_namespace,
                      "namespace of the NodeFeature object (with --label-output nodefeature)");
  add_variable_option(command, "--pod-name", o.pod_name,
                      "with --label-output nodefeature: this pod, with whose DaemonSet the object goes");
  add_variable_option(
      command, "--pod-uid", o.pod_uid,
      "with dra.devices: the UID of this pod, so that its sockets have names of their own beside an older pod's");
  add_own_option(command, "--startup-taint", o.startup_taint,
                 "key of a startup taint to remove from this node once it is serving; needs the right to patch nodes");
  add_own_option(
      command, "--listen", o.listen,
      "address for /metrics, /healthz, /readyz and /status, such as :9400 or 127.0.0.1:9400; none by default");
  add_own_option(command, "--dcgm-names", held.dcgm_names,
                 "new: also serve /metrics/dcgm with what is known under the DCGM_FI_* names of dcgm-exporter since "
                 "4.9, with pods of shared GPUs")
      .check([](const std::string& names) -> std::string {
        if (names == "old") return "the names of dcgm-exporter before 4.9 were removed; write new, and use those names";
        return names == "off" || names == "new" ? "" : "write off or new";
      });
  add_strict(command, held.strict);
  add_log_options(command, held.log);
}

int run(NodeCommand& held, const Process& process) {
  apply(held.log);
  held.options.environment = process.environment;
  held.options.health_quiet_period = period_of(held.quiet_period).value_or(held.options.health_quiet_period);
  held.options.unknown_keys = unknown_keys(held.strict);
  held.options.dcgm_names = held.dcgm_names == "new";
  held.options.mig.enabled = held.mig_manager == "true";
  held.options.mig.may_reset = held.mig_reset == "true";
  if (!held.mig_evict_after.empty())
    held.options.mig.evict_after = period_of(held.mig_evict_after).value_or(Duration{});
  held.options.config.patience = period_of(held.config_wait).value_or(held.options.config.patience);
  held.options.config.fallbacks.clear();
  for (const auto word : split(held.fallbacks, ','))
    if (!trimmed(word).empty()) held.options.config.fallbacks.emplace_back(trimmed(word));
  held.options.label_output =
      enum_of<labels::LabelOutput::kNode>(held.label_output).value_or(labels::LabelOutput::kNone);
  return node::run_node(held.options);
}

void add_node(CLI::App& app, Process& process) {
  auto held = std::make_shared<NodeCommand>();
  auto* command =
      app.add_subcommand("node", "the node agent: advertises GPU slots to kubelet and hands them to containers");
  add_node_options(*command, *held);
  command->callback([held, &process] { process.run = [held, &process] { return run(*held, process); }; });
}

}  // namespace tranche::cli
