#include <CLI/CLI.hpp>

#include "base/text.h"
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

CLI::Option& add_period(CLI::App& command, const std::string& flag, Duration& value, const std::string& help) {
  return *add_own_option(command, flag, value == Duration{} ? "" : config::render_duration(value), help,
                         [&value](const std::string& text) { value = period_of(text).value_or(value); })
              .check(check_period);
}

CLI::Option& add_truth(CLI::App& command, const std::string& flag, bool& value, const std::string& help) {
  return *add_own_option(command, flag, value ? "true" : "false", help, [&value](const std::string& text) {
            value = text == "true";
          }).check(CLI::IsMember({"true", "false"}));
}

constexpr const char* kPlaces = "Configuration of this node among several";

void add_config_places(CLI::App& command, config::ConfigPlaces& places) {
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
      command, "--fallback-strategies", join(places.fallbacks, ","),
      "where there is neither label nor default: named (one called default), single (the only one), empty "
      "(no settings), in the order given",
      [&places](const std::string& text) {
        places.fallbacks.clear();
        for (const auto word : split(text, ','))
          if (!trimmed(word).empty()) places.fallbacks.emplace_back(trimmed(word));
      })
      .group(kPlaces);
  add_period(command, "--config-wait", places.patience,
             "how long the label and the ConfigMap are waited for at the start, before what was written down last, or "
             "the default, counts")
      .group(kPlaces);
  add_variable_option(command, "--node-label", places.label, "the label of the node that names its configuration")
      .group(kPlaces);
}

constexpr const char* kMig = "MIG manager";

void add_mig_options(CLI::App& command, mig::MigOptions& mig) {
  add_truth(command, "--mig-manager", mig.enabled,
            "true: partition GPUs by MIG as the node's label nvidia.com/mig.config asks; stays off where the GPU "
            "Operator runs its own MIG manager")
      .group(kMig);
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
  add_period(command, "--mig-evict-after", mig.evict_after,
             "how long a change waits for pods that hold MIG devices which it removes, before it evicts them "
             "through the Eviction API; never by default")
      .group(kMig);
  add_truth(command, "--mig-reset", mig.may_reset,
            "true: reset a GPU that nothing uses when its MIG mode change needs that (Ampere)")
      .group(kMig);
}

}  // namespace

void add_node_options(CLI::App& command, NodeCommand& held) {
  auto& o = held.options;
  add_settings(command, config::Program::kDevicePlugin, o.flags);
  add_config_places(command, o.config);
  add_mig_options(command, o.mig);
  add_places(command, {{"--plugin-dir", &o.plugin_dir},
                       {"--pod-resources-socket", &o.pod_resources_socket},
                       {"--run-dir", &o.run_dir},
                       {"--mps-root-ctr-path", &o.mps_root_here},
                       {"--cdi-root", &o.cdi_root}});
  add_own_option(command, "--system-root", o.system_root,
                 "where the node's /dev and /sys are for this process: watched for GPUs being added or removed");
  add_period(command, "--health-quiet-period", o.health_quiet_period,
             "how long a GPU must be without a fault before it takes pods again; repeated faults double it");
  add_own_option(
      command, "--kubeconfig", o.kubeconfig,
      "kubeconfig of the API server; default: the pod's service account; outside a pod the API server is not used");
  add_variable_option(command, "--node-name", o.node_name, "what the cluster calls this node");
  add_label_output(command, o.label_output, {"none", "file", "nodefeature", "node"});
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
  add_own_option(command, "--dcgm-names", "off",
                 "new: also serve /metrics/dcgm with what is known under the DCGM_FI_* names of dcgm-exporter since "
                 "4.9, with pods of shared GPUs",
                 [&o](const std::string& names) { o.dcgm_names = names == "new"; })
      .check([](const std::string& names) -> std::string {
        if (names == "old") return "the names of dcgm-exporter before 4.9 were removed; write new, and use those names";
        return names == "off" || names == "new" ? "" : "write off or new";
      });
  add_strict(command, o.unknown_keys);
  add_log_options(command, held.log);
}

void add_node(CLI::App& app, Process& process) {
  auto held = std::make_shared<NodeCommand>();
  auto* command =
      app.add_subcommand("node", "the node agent: advertises GPU slots to kubelet and hands them to containers");
  add_node_options(*command, *held);
  command->callback(
      [held, &process] { process.run = [held, &process] { return node::run_node(started(*held, process)); }; });
}

}  // namespace tranche::cli
