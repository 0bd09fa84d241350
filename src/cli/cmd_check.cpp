#include <CLI/CLI.hpp>

#include "check/main.h"
#include "cli/commands.h"

namespace tranche::cli {

void add_check(CLI::App& app, Process& process) {
  struct Held {
    check::CheckOptions options;
    bool json = false;
  };
  auto held = std::make_shared<Held>();
  auto* command =
      app.add_subcommand("check", "node doctor: what this node lacks for sharing GPUs, each finding with its remedy");
  auto& o = held->options;
  command->add_option("--config-file,--config", o.config_path, "a configuration file to check as well");
  command->add_option("--root", o.root, "root of the node's files, when they are mounted elsewhere")
      ->capture_default_str();
  command->add_option("--driver-root", o.driver_root, "root of the driver's files")->capture_default_str();
  command->add_option("--mps-root", o.mps_root, "directory of MPS state")->capture_default_str();
  command->add_option("--kubelet-root", o.kubelet_root, "kubelet's directory")->capture_default_str();
  command->add_option("--mps-control", o.mps_control, "the control program: a name in PATH, or a path")
      ->capture_default_str();
  command->add_flag("--json", held->json, "findings as JSON");
  command->callback([held, &process] {
    if (const auto path = process.environment.find("PATH"); path != process.environment.end())
      held->options.search_path = path->second;
    process.exit_code = check::check_main(held->options, held->json, stdout);
  });
}

}  // namespace tranche::cli
