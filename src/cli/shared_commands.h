#pragma once
// Command lines that a command of ours and a program of NVIDIA's share: `tranche node` and `nvidia-device-plugin`,
// `tranche mps` and `mps-control-daemon`, `tranche labels` and `gpu-feature-discovery`. NVIDIA's have their own exit
// statuses and paths. `held` must exist until parsing is complete; the help shows the present values as defaults.
#include <string>

#include "cli/setting_options.h"
#include "labels/live/feature_program.h"
#include "node/node_program.h"
#include "programs/mps/mps_program.h"

namespace tranche::cli {

struct NodeCommand {
  node::NodeOptions options;
  LogOptions log;
};

void add_node_options(CLI::App& command, NodeCommand& held);

struct MpsCommand {
  programs::MpsOptions options;
  LogOptions log;
  bool end = false;
};

// All options except the settings of the configuration.
void add_own_mps_options(CLI::App& command, MpsCommand& held);
int run(MpsCommand& held, const Process& process);

struct FeatureCommand {
  labels::FeatureOptions options;
  std::string ignored;  // of flags without effect
  LogOptions log;
};

void add_feature_options(CLI::App& command, FeatureCommand& held);

}  // namespace tranche::cli
