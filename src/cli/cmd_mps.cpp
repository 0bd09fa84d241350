#include <CLI/CLI.hpp>

#include "cli/shared_commands.h"

namespace tranche::cli {

void add_own_mps_options(CLI::App& command, MpsCommand& held) {
  auto& o = held.options;
  add_own_option(command, "--config-of-node", o.config.written,
                 "the file in which the node agent of this node writes down its configuration, "
                 "<run-dir>/config-in-force.json: followed in place of --config-file");
  add_places(command, {{"--mps-root-ctr-path", &o.mps_root_here}, {"--mps-control", &o.mps_control}});
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
      ->check(CLI::PositiveNumber);
  command.add_flag("--end", held.end, "end all daemons of this MPS root for good, also those that were left running");
  add_strict(command, o.unknown_keys);
  add_log_options(command, held.log);
}

int run(MpsCommand& held, const Process& process) {
  const auto& options = started(held, process);
  return held.end ? programs::end_mps(options) : programs::run_mps(options);
}

void add_mps(CLI::App& app, Process& process) {
  auto held = std::make_shared<MpsCommand>();
  auto* command = app.add_subcommand("mps", "owns the MPS control daemons of this node; lives as long as tenants run");
  add_settings(*command, config::Program::kDevicePlugin, held->options.flags);
  add_own_mps_options(*command, *held);
  command->callback([held, &process] { process.run = [held, &process] { return run(*held, process); }; });
}

}  // namespace tranche::cli
