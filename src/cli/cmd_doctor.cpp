// Commands that look at a node and put it right.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/terminal_text.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/setting_options.h"
#include "config/keys.h"
#include "config/live/config_source.h"
#include "config/resolve.h"
#include "doctor/check/check.h"
#include "doctor/reset/reset_program.h"
#include "doctor/verify/live/verify_program.h"
#include "kube/client/ask_once.h"
#include "kube/client/find_access.h"
#include "mps/limits/limits.h"
#include "os/socket/status_socket.h"
#include "probe/main.h"

namespace tranche::cli {
namespace {

struct CheckHeld : config::Invocation {
  doctor::CheckOptions node;
  bool json = false;
  bool explain = false;
  bool with_node = false;
  bool reference = false;
  bool schema = false;
  std::string run_dir = "/run/tranche";
};

int check_config(const CheckHeld& held, const config::ConfigView& config, int width) {
  const bool usable = !has_error(config.problems);
  const bool explained = held.explain && usable;  // an unusable configuration has no effective values
  if (held.json) {
    const auto report = config::report_json(config.path, config.problems, explained ? &config.explained : nullptr);
    fmt::print("{}\n", json_text(report, 2));
  } else {
    fmt::print("{}", fitted(config::problems_text(config.path, config.problems), width));
    if (explained) fmt::print("\n{}", fitted(config::explained_text(config.explained), width));
  }
  return usable ? 0 : 2;
}

int check_node(CheckHeld& held, const config::ConfigView& config, const Process& process) {
  doctor::CheckOptions& o = held.node;
  o.search_path = config::variable(process.environment, "PATH", o.search_path);
  const std::string& mounted = config.config.flags.plugin.container_driver_root;  // as `tranche node` here finds it
  std::error_code absent;
  if (const auto root = held.flags.find("driver-root"); root != held.flags.end())
    o.driver_root = root->second.back();
  else if (std::filesystem::is_directory(mounted, absent))
    o.driver_root = mounted;
  o.agent_status = os::ask(held.run_dir + "/node.sock", "status", std::chrono::seconds(2)).value_or("");
  o.dra.config = config.config.dra;
  if (o.dra.config.devices != config::DraDevices::kNone) {
    const auto access = kube::PersonsAccess({}, process.environment).get();
    if (access) o.dra.server = access->server.url();
    o.dra.ask = [access](const std::string& path) -> Result<kube::KubeAnswer> {
      if (!access) return std::unexpected(access.error());
      return kube::ask_once(*access, &kube::KubeClient::get, path);
    };
  }
  if (!config.config.flags.mps_root.empty()) o.mps_root = config.config.flags.mps_root;
  const std::string mps_socket = doctor::under_root(o, o.mps_root) + "/mps.sock";
  o.mps_status = os::ask(mps_socket, "status", std::chrono::seconds(2)).value_or("");
  o.config_path = config.path;
  o.config_problems = config.problems;
  const doctor::Report report{"this node", doctor::run_checks(o)};
  fmt::print("{}", held.json ? to_json(report) : fitted(to_text(report), process.width));
  return has_error(config.problems) ? 2 : exit_status(report.findings) == 1 ? 1 : 0;
}

}  // namespace

void add_check(CLI::App& app, Process& process) {
  auto held = std::make_shared<CheckHeld>();
  auto* command =
      app.add_subcommand("check",
                         "node doctor: what this node lacks for sharing GPUs, each finding with its "
                         "remedy; with --config or --explain: what is wrong with a configuration, anywhere");
  add_settings(*command, config::Program::kDevicePlugin, held->flags);
  add_config_alias(*command, held->flags);
  add_strict(*command, held->unknown_keys);
  auto* explain = command->add_flag("--explain", held->explain, "the value of every setting and where it comes from");
  command->add_flag("--node", held->with_node, "the node as well, also with --config")->excludes(explain);
  auto& o = held->node;
  command->add_option("--root", o.root, "root of the node's files, when they are mounted elsewhere");
  add_own_option(*command, "--run-dir", held->run_dir,
                 "the node agent's directory: its own sockets are no other plugin's");
  command->add_option("--kubelet-root", o.kubelet_root, "kubelet's root directory");
  command->add_option("--mps-control", o.mps_control, "the control program: a name in PATH, or a path");
  command->add_flag("--json", held->json, "findings as JSON");
  command->add_flag("--config-reference", held->reference, "print every key of a configuration, as Markdown, and exit");
  command->add_flag("--config-schema", held->schema, "print the JSON Schema of a configuration, for editors, and exit");
  command->footer(
      "Examples:\n  tranche check                                   this node\n"
      "  tranche check --config config.yaml --strict     a configuration, in CI\n"
      "  tranche check --config config.yaml --explain    and the value of every setting");
  command->callback([held, &process] {
    if (held->reference || held->schema) {
      fmt::print("{}", held->reference ? config::reference_text() : config::schema_json());
      return;
    }
    held->environment = process.environment;
    const auto config = config::load_config(*held);
    const bool config_only = (held->flags.contains("config-file") || held->explain) && !held->with_node;
    process.exit_code = config_only ? check_config(*held, config, process.width) : check_node(*held, config, process);
  });
}

namespace {

constexpr const char* kVerifyTeaching =
    "Examples:\n"
    "  tranche verify n1                   node n1 from outside, through the API server\n"
    "  tranche verify n1 --deep            and by probe pods, one for each GPU, that try every limit\n"
    "  tranche verify --local              this node, by its status sockets and the driver\n"
    "  tranche verify --local --deep       and by probes in free slots of every GPU: limits, and deaths of clients\n"
    "  tranche verify --inside             in a container: the limits of its share\n"
    "  tranche verify n1 --junit out.xml   JUnit XML for CI\n"
    "Exit status: 0 nothing failed; 1 something did; 2 nothing could be checked. docs/reference/checks.md lists the "
    "checks.";

}  // namespace

void add_verify(CLI::App& app, Process& process) {
  auto options = std::make_shared<doctor::VerifyOptions>();
  auto* command = app.add_subcommand(
      "verify", "proves what a node promises: each check passes, fails or is skipped, with reason and remedy");
  auto& o = *options;
  command->add_option("node", o.node, "name of the node in the cluster");
  command->add_flag("--local", o.local, "this node, without an API server");
  command->add_flag("--inside", o.inside, "this container: tries the limits of the share that it holds");
  command->add_flag(
      "--deep", o.deep,
      "take slots that no pod holds and try their limits, by pods; with --local by processes, and whether the "
      "death of one reaches others (deep.deaths)");
  command->add_option("--pod-overrides", o.pod_overrides,
                      "with --deep from outside: a file with JSON that is merged over each probe pod, its first "
                      "container over every container (runtimeClassName, imagePullSecrets, volumes)");
  command->add_option("--sms", o.sms, "with --inside: how many SMs the share should have, 12 or GPU-a=12,GPU-b=14");
  command->add_flag("--observed", o.observed, "with --inside: guard.memory is observe, which only reports");
  command->add_flag("--json", o.json, "the report as JSON");
  command->add_option("--junit", o.junit, "also write it to this file as JUnit's XML");
  add_agents_options(*command, o.agents, "");
  add_settings(*command, config::Program::kDevicePlugin, o.flags);
  add_node_paths(*command, o);
  add_mps_root_here(*command, o.mps_root_here);
  add_mps_control(*command, o.mps_control);
  add_strict(*command, o.unknown_keys);
  command->footer(kVerifyTeaching);
  command->callback([options, &process] {
    options->environment = process.environment;
    options->terminal = process.terminal;
    process.exit_code = doctor::run_verify(*options);
  });
}

namespace {

constexpr const char* kResetTeaching =
    "Examples:\n"
    "  tranche reset --dry-run             what would be ended and removed\n"
    "  tranche reset --node-name n1        all of it, our labels and condition on the Node n1 too\n"
    "  tranche reset --force               also while pods hold GPUs: they lose them\n"
    "Remove the DaemonSets first: tranche node would make everything again, so nothing is done while it runs.\n"
    "Exit status: 0 nothing of ours is left; 1 refused, or something could not be removed; 2 usage. "
    "docs/guide/install.md, \"Remove\".";

}  // namespace

void add_reset(CLI::App& app, Process& process) {
  auto held = std::make_shared<Held<doctor::ResetOptions>>();
  auto* command = app.add_subcommand("reset", "removes everything that Tranche has made on this node");
  auto& o = held->options;
  add_settings(*command, config::Program::kDevicePlugin, o.flags);
  command->add_flag("--force", o.force, "also while pods hold GPUs");
  command->add_flag("--dry-run", o.dry_run, "print what would be done, and do nothing");
  add_own_option(*command, "--daemon-cgroup", o.daemon_cgroup,
                 "the cgroup folder that tranche mps was given; tranche in every hierarchy by default");
  add_node_paths(*command, o);
  add_mps_root_here(*command, o.mps_root_here);
  add_mps_control(*command, o.mps_control);
  add_kubeconfig(*command, o.kubeconfig, "");
  add_variable_option(*command, "--node-name", o.node_name,
                      "what the cluster calls this node: its labels of ours are removed; left alone by default");
  add_strict(*command, o.unknown_keys);
  add_log_options(*command, held->log);
  command->footer(kResetTeaching);
  command->callback([held, &process] { process.exit_code = doctor::run_reset(started(*held, process)); });
}

void add_probe(CLI::App& app, Process& process) {
  auto options = std::make_shared<probe::ProbeCliOptions>();
  auto* command = app.add_subcommand(
      "probe", "a small GPU program: SMs, memory, right answers and speed, as a process gets them here");
  auto& o = *options;
  const auto add_seconds = [command](const char* flag, auto& into, double least, const char* help) {
    const auto take = [&into](double seconds) {
      into = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
    };
    return command->add_option_function<double>(flag, take, help)->check(CLI::Range(least, 86400.0));
  };
  command->add_option("--device", o.probe.device, "index or UUID; the first visible by default");
  const auto take_sizes = [&o](const std::vector<std::string>& sizes) {
    for (const auto& size : sizes) o.probe.allocate.push_back(*mps::amount_of(size));
  };
  command
      ->add_option_function<std::vector<std::string>>("--allocate", take_sizes,
                                                      "try to allocate this much (512M, 3G); may be repeated")
      ->check([](const std::string& text) {
        return mps::amount_of(text) ? "" : "not a size: " + in_quotes(text) + "; write for example 512M or 3G";
      });
  command->add_flag("--find-limit", o.probe.find_limit, "search for the largest single allocation");
  add_seconds("--seconds", o.probe.run_for, 0.0, "compute for this long; 0 for not at all")->default_str("0.25");
  command->add_option("--blocks", o.probe.blocks, "thread blocks a launch; 0 for one an SM");
  command->add_flag("--tensor-cores", o.probe.tensor_cores,
                    "compute with bf16 products in kernels of about 10 ms (compute capability 8.0 and newer)");
  command->add_option("--queue", o.probe.queue, "launches before each wait for them")->check(CLI::Range(1U, 1000U));
  command->add_flag("--hold", o.hold, "hold the context and allocations until SIGTERM");
  add_seconds("--deadline", o.deadline, 0.1, "seconds for each stage that should be quick")->default_str("30");
  command->add_option("--endpoint", o.container.endpoint,
                      "run as in the container of a grant, with this directory of the grant at /run/tranche/mps");
  command->add_option("--as-user", o.container.user, "run as this user and group id")
      ->check(CLI::Range(1U, 4294967294U));
  command->add_flag("--stages", o.stages, "print each stage on stderr as it begins");
  command->add_flag("--json", o.json, "the report as one line of JSON");
  command->footer("Example:\n  tranche probe --find-limit --seconds 0     how much memory a process gets here");
  command->callback([options, &process] { process.exit_code = probe::probe_main(*options, stdout, stderr); });
}

}  // namespace tranche::cli
