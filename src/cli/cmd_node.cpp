#include <CLI/CLI.hpp>

#include "base/text.h"
#include "cli/node_command.h"
#include "cli/setting_options.h"
#include "config/duration.h"

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

}  // namespace

void add_node_options(CLI::App& command, NodeCommand& held) {
  auto& o = held.options;
  add_settings(command, config::Program::kDevicePlugin, o.flags);
  add_own_option(command, "--plugin-dir", o.plugin_dir, "kubelet's device plugin directory: our sockets go here");
  add_own_option(command, "--pod-resources-socket", o.pod_resources_socket, "where kubelet tells which pod holds what");
  add_own_option(command, "--run-dir", o.run_dir, "our own directory; the status socket node.sock is in it");
  add_own_option(command, "--mps-root-ctr-path", o.mps_root_here,
                 "where --mps-root is for this process, if not at the same path");
  add_own_option(command, "--cdi-root", o.cdi_root,
                 "where CDI specs are written while --device-list-strategy has a cdi- word");
  add_own_option(command, "--health-quiet-period", held.quiet_period,
                 "how long a GPU must be without a fault before it takes pods again; repeated faults double it")
      .check(check_period);
  add_own_option(
      command, "--listen", o.listen,
      "address for /metrics, /healthz, /readyz and /status, such as :9400 or 127.0.0.1:9400; none by default");
  add_strict(command, held.strict);
  add_log_options(command, held.log);
}

int run(NodeCommand& held, const Process& process) {
  apply(held.log);
  held.options.environment = {process.environment.begin(), process.environment.end()};
  held.options.health_quiet_period = period_of(held.quiet_period).value_or(held.options.health_quiet_period);
  held.options.unknown_keys = unknown_keys(held.strict);
  return agent::run_node(held.options);
}

void add_node(CLI::App& app, Process& process) {
  auto held = std::make_shared<NodeCommand>();
  auto* command =
      app.add_subcommand("node", "the node agent: advertises GPU slots to kubelet and hands them to containers");
  add_node_options(*command, *held);
  command->callback([held, &process] { process.exit_code = run(*held, process); });
}

}  // namespace tranche::cli
