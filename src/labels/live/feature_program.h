#pragma once
// GPU feature discovery: finds the node's GPUs, writes labels, sleeps, repeats, as NVIDIA's program does; also `tranche
// labels`. Between two rounds the driver is not held open. docs/compatibility/labels.md describes the handling of
// failures.
#include <optional>
#include <string>

#include "config/resolve.h"
#include "labels/live/label_output.h"

namespace tranche::labels {

// With the flags of feature discovery.
struct FeatureOptions : config::Invocation {
  std::optional<LabelOutput> output;  // absent: decided by useNodeFeatureAPI and outputFile
  bool once = false;                  // overrides `oneshot`
  bool remove = false;                // removes Tranche's labels from the output instead, and exits
  bool json = false;                  // format of the printed output
  std::string kubeconfig;             // "" = the service account of this pod
  LabelTarget target;                 // its file is the configuration's
  std::string system_root = "/";      // prefix of /sys and /usr/share
};

// Returns the exit status: 0 after one round or a signal, 2 for an unusable configuration, 1 otherwise.
int run_feature_discovery(const FeatureOptions& options);

}  // namespace tranche::labels
