// Command lines that a command of ours and a program of NVIDIA's share: `tranche node` and `nvidia-device-plugin`,
// `tranche mps` and `mps-control-daemon`, `tranche labels` and `gpu-feature-discovery`. NVIDIA's have their own exit
// statuses and paths. `held` must exist until parsing is complete; the help shows the present values as defaults. And
// NVIDIA's config manager.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/setting_options.h"
#include "config/document/amounts.h"
#include "labels/live/feature_program.h"
#include "node/node_program.h"
#include "programs/config_manager/config_manager.h"
#include "programs/mps/mps_program.h"

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

void add_period(CLI::App& command, const std::string& flag, Duration& value, const std::string& help) {
  add_own_option(command, flag, value == Duration{} ? "" : config::render_duration(value), help,
                 [&value](const std::string& text) { value = period_of(text).value_or(value); })
      .check(check_period);
}

void add_truth(CLI::App& command, const std::string& flag, bool& value, const std::string& help) {
  add_own_option(command, flag, value ? "true" : "false", help, [&value](const std::string& text) {
    value = text == "true";
  }).check(CLI::IsMember({"true", "false"}));
}

// Separated by commas, or one in each of several flags.
void add_fallbacks(CLI::App& command, config::ChoiceRules& rules, const std::string& help) {
  const auto take = [&rules](const std::string& text) {
    rules.fallbacks.clear();
    for (const auto line : lines_of(text))
      for (const auto word : split(line, ','))
        if (!trimmed(word).empty()) rules.fallbacks.emplace_back(trimmed(word));
  };
  add_variable_option(command, "--fallback-strategies", join(rules.fallbacks, ","), help, take)
      .multi_option_policy(CLI::MultiOptionPolicy::Join);
}

// The options that add() adds have this heading in the help.
void add_group(CLI::App& command, const char* heading, const auto& add) {
  const std::string others = command.option_defaults()->get_group();
  command.option_defaults()->group(heading);
  add();
  command.option_defaults()->group(others);
}

void add_config_places(CLI::App& command, config::ConfigPlaces& places) {
  add_own_option(command, "--config-dir", places.dir,
                 "folder of several configurations, such as a mounted ConfigMap; the node's label says which is in "
                 "effect, and a change of either is followed")
      .envname("CONFIG_FILE_SRCDIR");
  add_own_option(command, "--config-map", places.config_map,
                 "NAMESPACE/NAME of a ConfigMap with several configurations, watched through the API server");
  add_variable_option(command, "--default-config", places.rules.default_name, "the one for nodes without the label");
  add_fallbacks(command, places.rules,
                "where there is neither label nor default: named (one called default), single (the only one), empty "
                "(no settings), in the order given");
  add_period(command, "--config-wait", places.patience,
             "how long the label and the ConfigMap are waited for at the start, before what was written down last, or "
             "the default, counts");
  add_variable_option(command, "--node-label", places.label, "the label of the node that names its configuration");
}

void add_mig_options(CLI::App& command, mig::MigOptions& mig) {
  add_truth(command, "--mig-manager", mig.enabled,
            "true: partition GPUs by MIG as the node's label nvidia.com/mig.config asks; stays off where the GPU "
            "Operator runs its own MIG manager");
  add_own_option(command, "--mig-config-file", mig.config_file,
                 "file of MIG configurations in mig-parted's format, followed when it changes; the default names "
                 "(all-disabled, all-balanced, all-1g.10gb and so on) exist without one");
  add_own_option(command, "--mig-config-map", mig.config_map,
                 "NAMESPACE/NAME of a ConfigMap whose key config.yaml has them, watched through the API server")
      .excludes("--mig-config-file");
  add_own_option(command, "--mig-default-config", mig.default_name,
                 "the configuration of a node without the label; without one such a node is left alone");
  add_period(command, "--mig-evict-after", mig.evict_after,
             "how long a change waits for pods that hold MIG devices which it removes, before it evicts them "
             "through the Eviction API; never by default");
  add_truth(command, "--mig-reset", mig.may_reset,
            "true: reset a GPU that nothing uses when its MIG mode change needs that (Ampere)");
}

using NodeCommand = Held<node::NodeOptions>;

void add_node_options(CLI::App& command, NodeCommand& held) {
  auto& o = held.options;
  add_settings(command, config::Program::kDevicePlugin, o.flags);
  add_group(command, "Configuration of this node among several", [&] { add_config_places(command, o.config); });
  add_group(command, "MIG manager", [&] { add_mig_options(command, o.mig); });
  add_node_paths(command, o);
  add_mps_root_here(command, o.mps_root_here);
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

struct MpsCommand : Held<programs::MpsOptions> {
  bool end = false;
};

// All options except the settings of the configuration.
void add_own_mps_options(CLI::App& command, MpsCommand& held) {
  auto& o = held.options;
  add_own_option(command, "--config-of-node", o.config.written,
                 "the file in which the node agent of this node writes down its configuration, "
                 "<run-dir>/config-in-force.json: followed in place of --config-file");
  add_mps_root_here(command, o.mps_root_here);
  add_mps_control(command, o.mps_control);
  add_own_option(command, "--system-root", o.system_root,
                 "where the node's /dev and /sys are for this process: GPUs that come and go are noticed there");
  add_own_option(command, "--listen", o.listen,
                 "address for /metrics, /healthz and /readyz, such as :9401; none by default");
  add_own_option(
      command, "--daemon-home", "pod",
      "pod or host: whether the daemons end with this program, or run on in the host until tranche mps --end",
      [&o](const std::string& home) { o.daemons_on_host = home == "host"; })
      .check(CLI::IsMember({"pod", "host"}));
  add_own_option(command, "--daemon-cgroup", o.daemon_cgroup,
                 "with --daemon-home host: the cgroup folder on the host in which each daemon gets its own, or none; "
                 "tranche in every hierarchy by default");
  command
      .add_option("--daemon-host-process", o.host_pid, "whose mount and cgroup namespaces are the host's; 1 by default")
      ->check(CLI::PositiveNumber)
      ->default_str("");
  command.add_flag("--end", held.end, "end all daemons of this MPS root for good, also those that were left running");
  add_strict(command, o.unknown_keys);
  add_log_options(command, held.log);
}

int run(MpsCommand& held, const Process& process) {
  const auto& options = started(held, process);
  return held.end ? programs::end_mps(options) : programs::run_mps(options);
}

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

struct FeatureCommand : Held<labels::FeatureOptions> {
  std::string ignored;  // of flags without effect
};

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

constexpr const char* kPlugin = "nvidia-device-plugin";
constexpr const char* kMpsDaemon = "mps-control-daemon";
constexpr const char* kFeatureDiscovery = "gpu-feature-discovery";
constexpr const char* kRootOfNode = "/host";  // where the GPU Operator mounts it, read-only, only in the device plugin
constexpr const char* kMpsPlace = "/mps";     // where NVIDIA's chart mounts the host's MPS root in its containers

int as_nvidias(int status) {
  return status == 0 ? 0 : 1;
}

// NVIDIA's manifests do not mount the folder of kubelet's PodResources socket, which reports the holders of devices. If
// they mount the node's root, the socket is reached through that: it accepts connections below a read-only mount too.
std::string pod_resources_socket(const std::string& given) {
  const std::filesystem::path elsewhere(kRootOfNode + given);
  const bool only_there = !is_folder(std::filesystem::path(given).parent_path()) && is_folder(elsewhere.parent_path());
  return only_there ? elsewhere.string() : given;
}

int device_plugin(const std::vector<std::string>& arguments, Process& process) {
  std::optional<CLI::App> app(
      std::in_place, "Tranche as NVIDIA's device plugin: the same flags, variables, files and sockets", kPlugin);
  NodeCommand held;
  held.options.mps_root_here = kMpsPlace;
  held.options.run_dir_may_lack = true;
  add_node_options(*app, held);
  if (const auto status = read_as_nvidias(*app, arguments)) return *status;
  app.reset();  // its options need 0.4 MB
  held.options.pod_resources_socket = pod_resources_socket(held.options.pod_resources_socket);
  return as_nvidias(node::run_node(started(held, process)));
}

int mps_control_daemon(const std::vector<std::string>& arguments, Process& process) {
  std::optional<CLI::App> app(
      std::in_place, "Tranche as NVIDIA's MPS control daemon: the same flags, variables and files", kMpsDaemon);
  MpsCommand held;
  held.options.mps_root_here = kMpsPlace;
  add_settings(*app, config::Program::kMpsControlDaemon, held.options.flags);
  add_own_mps_options(*app, held);
  if (std::ranges::find(arguments, "mount-shm") != arguments.end()) {
    fmt::print(stderr,
               "{}: mount-shm has nothing to do: containers reach MPS through a directory of their own, and where the "
               "driver needs shared memory as well, the folder that is there does\n",
               kMpsDaemon);
    return 0;
  }
  if (const auto status = read_as_nvidias(*app, arguments)) return *status;
  app.reset();  // its options need 0.4 MB
  return as_nvidias(run(held, process));
}

int feature_discovery(const std::vector<std::string>& arguments, Process& process) {
  CLI::App app("Tranche as NVIDIA's GPU feature discovery: the same flags, variables, labels and outputs",
               kFeatureDiscovery);
  FeatureCommand held;
  add_feature_options(app, held);
  if (const auto status = read_as_nvidias(app, arguments)) return *status;
  return as_nvidias(labels::run_feature_discovery(started(held, process)));
}

std::string check_signal(const std::string& text) {
  constexpr std::uint64_t kLastSignal = 64;
  const auto number = parse_unsigned(text).value_or(0);
  if (text.empty() || (number >= 1 && number <= kLastSignal)) return {};
  return in_quotes(text) + " is not a signal; write a number from 1 to 64, such as 1";
}

void add_options(CLI::App& app, Held<programs::ConfigManagerOptions>& given, const config::Environment& environment) {
  auto& o = given.options;
  app.add_flag("--oneshot", o.oneshot, "choose once and end")->envname("ONESHOT");
  add_variable_option(app, "--kubeconfig", o.kubeconfig, kKubeconfigHelp);
  add_variable_option(app, "--node-name", o.node_name, "what the cluster calls this node; required");
  add_variable_option(app, "--node-label", o.node_label, "the label of the node that names its configuration");
  add_variable_option(app, "--config-file-srcdir", o.source_dir, "folder of the configurations, one a file; required");
  add_variable_option(app, "--config-file-dst", o.target, "the link to the one in effect; required");
  add_variable_option(app, "--default-config", o.rules.default_name, "the one for nodes without the label");
  add_fallbacks(app, o.rules, "where there is neither label nor default: named, single, empty, in the order given");
  const auto send = environment.find("SEND_SIGNAL");
  o.send_signal = send == environment.end() || !send->second.empty();  // an empty variable is false
  app.add_flag("--send-signal", o.send_signal, "signal the reader of a change; true by default")
      ->envname("SEND_SIGNAL");
  add_variable_option(app, "--signal", "", "the signal's number; 1 by default", [&o](const std::string& text) {
    o.signal = static_cast<int>(parse_unsigned(text).value_or(1));
  }).check(check_signal);
  add_variable_option(app, "--process-to-signal", o.process, "the reader's name or path");
  add_log_options(app, given.log);
}

// Returns the error, or "".
std::string judge(programs::ConfigManagerOptions& o) {
  if (o.node_name.empty()) return "the name of this node is not given: --node-name or $NODE_NAME";
  if (o.source_dir.empty())
    return "the folder of configurations is not given: --config-file-srcdir or $CONFIG_FILE_SRCDIR";
  if (o.target.empty()) return "the link to write is not given: --config-file-dst or $CONFIG_FILE_DST";
  if (o.node_label.empty()) return "--node-label is empty: write the key of a label, or leave it out";
  while (o.source_dir.size() > 1 && o.source_dir.ends_with('/')) o.source_dir.pop_back();
  if (o.send_signal && o.process.empty())
    return "--process-to-signal is empty: name the reader, or write --send-signal=false";
  return "";
}

int config_manager(const std::vector<std::string>& arguments, Process& process) {
  CLI::App app("Tranche as NVIDIA's config manager: the same flags, variables and files", kConfigManager);
  Held<programs::ConfigManagerOptions> given;
  add_options(app, given, process.environment);
  if (const auto status = read_as_nvidias(app, arguments)) return *status;
  if (const auto wrong = judge(given.options); !wrong.empty()) {
    fmt::print(stderr, "{}: {}\n", kConfigManager, wrong);
    return 1;
  }
  return programs::run_config_manager(started(given, process));
}

}  // namespace

void add_node(CLI::App& app, Process& process) {
  auto held = std::make_shared<NodeCommand>();
  auto* command =
      app.add_subcommand("node", "the node agent: advertises GPU slots to kubelet and hands them to containers");
  add_node_options(*command, *held);
  command->callback(
      [held, &process] { process.run = [held, &process] { return node::run_node(started(*held, process)); }; });
}

void add_mps(CLI::App& app, Process& process) {
  auto held = std::make_shared<MpsCommand>();
  auto* command = app.add_subcommand("mps", "owns the MPS control daemons of this node; lives as long as tenants run");
  add_settings(*command, config::Program::kDevicePlugin, held->options.flags);
  add_own_mps_options(*command, *held);
  command->callback([held, &process] { process.run = [held, &process] { return run(*held, process); }; });
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

std::optional<int> stand_in(const std::string& program, const std::vector<std::string>& arguments, Process& process) {
  const std::string name = program.substr(program.rfind('/') + 1);  // npos + 1 is 0
  if (name == kPlugin || name == "device-plugin") return device_plugin(arguments, process);
  if (name == kMpsDaemon) return mps_control_daemon(arguments, process);
  if (name == kConfigManager) return config_manager(arguments, process);
  if (name == kMigParted) return mig_parted(arguments, process);
  if (name == kMigManager) return mig_manager(arguments, process);
  if (name == kFeatureDiscovery) return feature_discovery(arguments, process);
  return std::nullopt;
}

}  // namespace tranche::cli
