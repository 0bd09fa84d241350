#include <CLI/CLI.hpp>
#include <memory>

#include "cli/cluster_options.h"
#include "cli/commands.h"
#include "cli/setting_options.h"
#include "doctor/verify/live/verify_program.h"

namespace tranche::cli {
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
  add_places(*command, {{"--run-dir", &o.run_dir},
                        {"--plugin-dir", &o.plugin_dir},
                        {"--pod-resources-socket", &o.pod_resources_socket},
                        {"--cdi-root", &o.cdi_root},
                        {"--mps-root-ctr-path", &o.mps_root_here},
                        {"--mps-control", &o.mps_control}});
  add_strict(*command, o.unknown_keys);
  command->footer(kVerifyTeaching);
  command->callback([options, &process] {
    options->environment = process.environment;
    options->terminal = process.terminal;
    process.exit_code = doctor::run_verify(*options);
  });
}

}  // namespace tranche::cli
