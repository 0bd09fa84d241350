#include <CLI/CLI.hpp>

#include "agent/node/node_program.h"
#include "cli/commands.h"
#include "cli/setting_options.h"

namespace tranche::cli {

void add_node(CLI::App& app, Process& process) {
  struct Held {
    agent::NodeOptions options;
    LogOptions log;
  };
  auto held = std::make_shared<Held>();
  auto* command =
      app.add_subcommand("node", "the node agent: advertises GPU slots to kubelet and hands them to containers");
  add_settings(*command, config::Program::kDevicePlugin, held->options.flags);
  auto& o = held->options;
  command->add_option("--plugin-dir", o.plugin_dir, "kubelet's device plugin directory: our sockets go here")
      ->capture_default_str();
  command->add_option("--pod-resources-socket", o.pod_resources_socket, "where kubelet tells which pod holds what")
      ->capture_default_str();
  command->add_option("--run-dir", o.run_dir, "our own directory; the status socket node.sock is in it")
      ->capture_default_str();
  command->add_option("--mps-root-ctr-path", o.mps_root_here,
                      "where --mps-root is for this process, if not at the same path");
  command->add_option("--listen", o.listen,
                      "address for /metrics, /healthz and /status, such as :9400 or 127.0.0.1:9400; none by default");
  add_log_options(*command, held->log);
  command->callback([held, &process] {
    apply(held->log);
    held->options.environment = {process.environment.begin(), process.environment.end()};
    process.exit_code = agent::run_node(held->options);
  });
}

}  // namespace tranche::cli
