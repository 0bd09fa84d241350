#pragma once
// The node agent's command line, which two commands share: `tranche node`, and `nvidia-device-plugin` with NVIDIA's
// exit statuses and places.
#include <string>

#include "cli/commands.h"
#include "programs/node/node_program.h"

namespace tranche::cli {

struct NodeCommand {
  agent::NodeOptions options;
  std::string fallbacks = "named,single";
  std::string config_wait = "5s";
  std::string quiet_period = "5m";  // into options by run()
  std::string mig_manager = "false", mig_reset = "true";
  std::string mig_evict_after;        // into options by run(); "" = never
  std::string dcgm_names = "off";     // into options by run()
  std::string label_output = "none";  // into options by run()
  LogOptions log;
  bool strict = false;
};

// `held` must live until parsing is over. Defaults shown in the help are those it has by now.
void add_node_options(CLI::App& command, NodeCommand& held);
int run(NodeCommand& held, const Process& process);

}  // namespace tranche::cli
