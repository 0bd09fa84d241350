#pragma once
// The replacement of NVIDIA's config-manager: maintains a link to this node's configuration among several, and signals
// the program that reads it (docs/compatibility/config-manager.md). Tranche's agents do not need it: they follow the
// label and the ConfigMap themselves (decisions/0013).
#include <string>
#include <vector>

#include "base/time.h"
#include "config/choose.h"
#include "config/resolve.h"

namespace tranche::agent {

struct ConfigManagerOptions {
  bool oneshot = false;    // choose once and exit: as an init container
  std::string kubeconfig;  // "" = the service account of this pod
  std::string node_name;
  std::string node_label = config::kConfigLabel;
  std::string source_dir;  // the configurations, one per file
  std::string target;      // the link
  config::ChoiceRules rules;
  bool send_signal = true;
  int signal = 1;
  std::string process = "nvidia-device-plugin";
  config::Environment environment;
  Duration patience = std::chrono::seconds(5);  // for the node's label, before the first choice
};

// Returns the exit status: 0 after SIGTERM or SIGINT, or after the single choice with `oneshot`; 1 otherwise.
int run_config_manager(const ConfigManagerOptions& options);

}  // namespace tranche::agent
