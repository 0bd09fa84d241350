#pragma once
// The command line of the owner of the MPS daemons, shared by two commands: `tranche mps`, and `mps-control-daemon`
// with NVIDIA's flags.
#include "cli/commands.h"
#include "programs/mps/mps_program.h"

namespace tranche::cli {

struct MpsCommand {
  agent::MpsOptions options;
  LogOptions log;
  std::string daemon_home = "pod";
  bool end = false;
  bool strict = false;
};

// All options except the settings of the configuration. `held` must exist until parsing is complete.
void add_own_mps_options(CLI::App& command, MpsCommand& held);
int run(MpsCommand& held, const Process& process);

}  // namespace tranche::cli
