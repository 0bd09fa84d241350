#pragma once
// The command line of feature discovery, which two commands share: `tranche labels`, and `gpu-feature-discovery` with
// NVIDIA's outputs and exit statuses.
#include <string>

#include "cli/commands.h"
#include "labels/live/feature_program.h"

namespace tranche::cli {

struct FeatureCommand {
  agent::FeatureOptions options;
  std::string output = "stdout";  // of `tranche labels` alone
  std::string qps = "5";          // of the API client; taken and without effect
  std::string burst = "10";
  LogOptions log;
  bool strict = false;
};

// `held` must live until parsing is over.
void add_feature_options(CLI::App& command, FeatureCommand& held);
int run(FeatureCommand& held, const Process& process);

}  // namespace tranche::cli
