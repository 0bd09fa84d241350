#include <CLI/CLI.hpp>

#include "cli/mps_command.h"
#include "cli/setting_options.h"

namespace tranche::cli {

void add_own_mps_options(CLI::App& command, MpsCommand& held) {
  auto& o = held.options;
  add_own_option(command, "--mps-root-ctr-path", o.mps_root_here,
                 "where --mps-root is for this process, if not at the same path");
  add_own_option(command, "--mps-control", o.mps_control,
                 "path of nvidia-cuda-mps-control; looked for under the driver root and in PATH by default");
  add_own_option(command, "--listen", o.listen, "address for /metrics and /healthz, such as :9401; none by default");
  add_strict(command, held.strict);
  add_log_options(command, held.log);
}

int run(MpsCommand& held, const Process& process) {
  apply(held.log);
  held.options.environment = {process.environment.begin(), process.environment.end()};
  held.options.unknown_keys = unknown_keys(held.strict);
  return agent::run_mps(held.options);
}

void add_mps(CLI::App& app, Process& process) {
  auto held = std::make_shared<MpsCommand>();
  auto* command = app.add_subcommand("mps", "owns the MPS control daemons of this node; lives as long as tenants run");
  add_settings(*command, config::Program::kDevicePlugin, held->options.flags);
  add_own_mps_options(*command, *held);
  command->callback([held, &process] { process.exit_code = run(*held, process); });
}

}  // namespace tranche::cli
