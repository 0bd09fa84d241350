#include <CLI/CLI.hpp>

#include "agent/mps/mps_program.h"
#include "cli/commands.h"
#include "cli/setting_options.h"

namespace tranche::cli {

void add_mps(CLI::App& app, Process& process) {
  struct Held {
    agent::MpsOptions options;
    LogOptions log;
  };
  auto held = std::make_shared<Held>();
  auto* command = app.add_subcommand("mps", "owns the MPS control daemons of this node; lives as long as tenants run");
  auto& o = held->options;
  add_settings(*command, config::Program::kDevicePlugin, o.flags);
  command->add_option("--mps-root-ctr-path", o.mps_root_here,
                      "where --mps-root is for this process, if not at the same path");
  command->add_option("--mps-control", o.mps_control,
                      "path of nvidia-cuda-mps-control; looked for under the driver root and in PATH by default");
  command->add_option("--listen", o.listen, "address for /metrics and /healthz, such as :9401; none by default");
  add_log_options(*command, held->log);
  command->callback([held, &process] {
    apply(held->log);
    held->options.environment = {process.environment.begin(), process.environment.end()};
    process.exit_code = agent::run_mps(held->options);
  });
}

}  // namespace tranche::cli
