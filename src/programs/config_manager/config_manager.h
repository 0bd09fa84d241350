#pragma once
// The replacement of NVIDIA's config-manager: maintains a link to this node's configuration among several, and signals
// the program that reads it (docs/compatibility/config-manager.md). Tranche's agents do not need it: they follow the
// label and the ConfigMap themselves (decisions/0013).
#include <sys/types.h>

#include <string>

#include "base/result.h"
#include "base/time.h"
#include "config/choose.h"
#include "config/resolve.h"

namespace tranche::programs {

// Finds the process that reads the configuration by its exact name, in this pod only: a container that sees all
// processes of the node would otherwise find those of other pods as well. Reads /proc; any thread.

// Whether a process has that name: the last part of its argv[0], or of its executable. `wanted` may also be a path:
// NVIDIA's chart specifies /usr/bin/mps-control-daemon, whose argv[0] is mps-control-daemon. Pure.
bool is_called(const std::string& wanted, const std::string& argv0, const std::string& program);

// Sends `signal` to the first process of that name (also by the kernel's record of it), except this one, that sees the
// same directory at `folder` (the volume shared by the containers of one pod). Uses a pidfd, so a process with a
// recycled id is never signalled. Returns the pid. kNotFound: there is none; it reads the configuration when it starts.
Result<pid_t> signal_reader(const std::string& wanted, const std::string& folder, int signal);

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

}  // namespace tranche::programs
