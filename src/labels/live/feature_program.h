#pragma once
// GPU feature discovery: finds the node's GPUs, labels, sleeps, again, as NVIDIA's program does, and `tranche labels`.
// Between two rounds nothing of the driver is held open. What becomes of failures is in docs/compatibility/labels.md.
#include <optional>
#include <string>

#include "config/resolve.h"
#include "labels/live/label_output.h"

namespace tranche::agent {

struct FeatureOptions {
  config::GivenFlags flags;  // feature discovery's, as given on the command line
  config::Environment environment;
  config::UnknownKeys unknown_keys = config::UnknownKeys::kWarned;
  std::optional<LabelOutput> output;  // absent: as useNodeFeatureAPI and outputFile say
  bool once = false;                  // whatever `oneshot` says
  bool remove = false;                // takes our labels away from the output instead, and ends
  bool json = false;                  // of what is printed
  std::string kubeconfig;             // "" = as every pod is given it
  std::string feature_namespace = "default";
  std::string node_name;
  std::string pod_name;
  std::string system_root = "/";  // what /sys and /usr/share are looked up under
};

// The process's exit status: 0 after one round or a signal, 2 for a configuration that cannot be used, 1 otherwise.
int run_feature_discovery(const FeatureOptions& options);

}  // namespace tranche::agent
