#pragma once
// The command line of feature discovery, shared by two commands: `tranche labels`, and `gpu-feature-discovery` with
// NVIDIA's outputs and exit statuses.
#include <string>

#include "cli/commands.h"
#include "labels/live/feature_program.h"

namespace tranche::cli {

struct FeatureCommand {
  agent::FeatureOptions options;
  std::string output = "stdout";  // `tranche labels` only
  std::string qps = "5";          // of the API client; accepted, without effect
  std::string burst = "10";
  LogOptions log;
  bool strict = false;
};

// `held` must exist until parsing is complete.
void add_feature_options(CLI::App& command, FeatureCommand& held);
int run(FeatureCommand& held, const Process& process);

}  // namespace tranche::cli
