#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands.h"
#include "cli/setting_options.h"
#include "doctor/reset/reset_program.h"

namespace tranche::cli {
namespace {

constexpr const char* kResetTeaching =
    "Examples:\n"
    "  tranche reset --dry-run             what would be ended and removed\n"
    "  tranche reset --node-name n1        all of it, our labels and condition on the Node n1 too\n"
    "  tranche reset --force               also while pods hold GPUs: they lose them\n"
    "Remove the DaemonSets first: tranche node would make everything again, so nothing is done while it runs.\n"
    "Exit status: 0 nothing of ours is left; 1 refused, or something could not be removed; 2 usage. "
    "docs/guide/install.md, \"Remove\".";

struct ResetHeld {
  doctor::ResetOptions options;
  LogOptions log;
};

}  // namespace

void add_reset(CLI::App& app, Process& process) {
  auto held = std::make_shared<ResetHeld>();
  auto* command = app.add_subcommand("reset", "removes everything that Tranche has made on this node");
  auto& o = held->options;
  add_settings(*command, config::Program::kDevicePlugin, o.mps.flags);
  command->add_flag("--force", o.force, "also while pods hold GPUs");
  command->add_flag("--dry-run", o.dry_run, "print what would be done, and do nothing");
  add_own_option(*command, "--daemon-cgroup", o.mps.daemon_cgroup,
                 "the cgroup folder that tranche mps was given; tranche in every hierarchy by default");
  add_places(*command, {{"--mps-root-ctr-path", &o.mps.mps_root_here},
                        {"--mps-control", &o.mps.mps_control},
                        {"--run-dir", &o.run_dir},
                        {"--plugin-dir", &o.plugin_dir},
                        {"--pod-resources-socket", &o.pod_resources_socket},
                        {"--cdi-root", &o.cdi_root}});
  add_own_option(
      *command, "--kubeconfig", o.kubeconfig,
      "how to reach the API server; default: $KUBECONFIG (one file or several), ~/.kube/config, or the service "
      "account of this pod");
  add_variable_option(*command, "--node-name", o.node_name,
                      "what the cluster calls this node: its labels of ours are removed; left alone by default");
  add_strict(*command, o.mps.unknown_keys);
  add_log_options(*command, held->log);
  command->footer(kResetTeaching);
  command->callback([held, &process] {
    apply(held->log);
    held->options.mps.environment = process.environment;
    process.exit_code = doctor::run_reset(held->options);
  });
}

}  // namespace tranche::cli
