#pragma once
// The node agent's command line, shared by two commands: `tranche node`, and `nvidia-device-plugin` with NVIDIA's exit
// statuses and paths.
#include <string>

#include "cli/commands.h"
#include "node/node_program.h"

namespace tranche::cli {

struct NodeCommand {
  agent::NodeOptions options;
  std::string fallbacks = "named,single";
  std::string config_wait = "5s";
  std::string quiet_period = "5m";  // run() parses it
  std::string mig_manager = "false", mig_reset = "true";
  std::string mig_evict_after;        // run() parses it; "" = never
  std::string dcgm_names = "off";     // run() parses it
  std::string label_output = "none";  // run() parses it
  LogOptions log;
  bool strict = false;
};

// `held` must exist until parsing is complete. The help shows the present values as defaults.
void add_node_options(CLI::App& command, NodeCommand& held);
int run(NodeCommand& held, const Process& process);

}  // namespace tranche::cli
