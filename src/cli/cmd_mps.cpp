#include <CLI/CLI.hpp>

#include "agent/mps/mps_program.h"
#include "cli/commands.h"

namespace tranche::cli {

void add_mps(CLI::App& app, Process& process) {
  struct Held {
    agent::MpsOptions options;
    LogOptions log;
  };
  auto held = std::make_shared<Held>();
  auto* command = app.add_subcommand("mps", "owns the MPS control daemons of this node; lives as long as tenants run");
  auto& o = held->options;
  command->add_option("--config-file", o.config_file, "configuration file [$CONFIG_FILE]")->envname("CONFIG_FILE");
  add_log_options(*command, held->log);
  command->callback([held, &process] {
    apply(held->log);
    process.exit_code = agent::run_mps(held->options);
  });
}

}  // namespace tranche::cli
