#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "gpu/models/models.h"
#include "programs/demo/demo_program.h"

namespace tranche::cli {

void add_demo(CLI::App& app, Process& process) {
  auto options = std::make_shared<programs::DemoOptions>();
  auto* command = app.add_subcommand(
      "demo", "a simulated node with pods sharing its GPUs, in this terminal; needs no GPU and no root");
  command->add_option("--profile", options->profile, "GPU model. " + gpu::known_models(""))->capture_default_str();
  command->add_option("--gpus", options->gpus, "how many GPUs the node has")
      ->check(CLI::Range(1, 16))
      ->capture_default_str();
  command->add_option("--slots", options->slots, "slots a GPU is cut into")
      ->check(CLI::Range(2, 48))
      ->capture_default_str();
  command->add_option("--config-file", options->config_file, "a configuration of your own instead of MPS with --slots")
      ->check(CLI::ExistingFile);
  command
      ->add_option(
          "--pods", options->pods_file,
          "Kubernetes YAML with pods of your own (Pod, Deployment, Job). The demo runs them: unlike `tranche plan "
          "--pods`, each container needs a command that the simulation has, such as [sim-cuda, --allocate, "
          "2GiB, --hold]")
      ->check(CLI::ExistingFile);
  command->add_option("--standins", options->standins, "folder of the simulated driver and kubelet");
  command->add_option("--settle-seconds", options->settle_seconds, "with --once: give up after this")
      ->capture_default_str();
  command->add_flag("--once", options->once, "print one report once the simulation is stable, then exit");
  command->add_flag("--json", options->json, "the report as JSON");
  command->add_flag("--keep", options->keep, "keep the temporary directory with its files");
  command->footer("Example:\n  tranche demo --gpus 2 --slots 4");
  command->callback([options, &process] { process.exit_code = programs::run_demo(*options); });
}

}  // namespace tranche::cli
