#include <CLI/CLI.hpp>

#include "cli/cluster_options.h"
#include "cli/commands.h"
#include "observe/cluster/web_program.h"

namespace tranche::cli {

void add_web(CLI::App& app, Process& process) {
  auto options = std::make_shared<observe::WebOptions>();
  auto seconds = std::make_shared<double>(10);
  auto* command = app.add_subcommand(
      "web",
      "a page of the cluster on this machine: nodes and GPUs as a map, what is free, what would fit, where a pod is");
  command->add_option("--port", options->port, "port of 127.0.0.1; 0: any free one")->capture_default_str();
  add_agents_options(*command, options->asked, "");
  command->add_option("--interval", *seconds, "seconds between two readings of the cluster")
      ->check(CLI::Range(1.0, 3600.0))
      ->capture_default_str();
  command->add_flag("--json", options->json, "print one reading as JSON, and exit");
  command->footer("Example:\n  tranche web --port 0 --context production");
  command->callback([options, seconds, &process] {
    options->interval = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(*seconds));
    options->environment = process.environment;
    process.exit_code = observe::run_web(*options);
  });
}

}  // namespace tranche::cli
