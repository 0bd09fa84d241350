#pragma once
// `tranche reset`: removes everything that Tranche's programs created on a node. It ends the MPS daemons, restores the
// compute modes, and removes sockets, directories, CDI specs, and Tranche's labels and condition on the Node. It
// refuses while a pod holds a GPU, unless forced, and while `tranche node` runs, which would create everything again. A
// second run changes nothing. One thread; blocks.
#include <string>

#include "kube/client/find_access.h"
#include "node/node_program.h"
#include "programs/mps/mps_program.h"

namespace tranche::doctor {

// With the daemons and how they end.
struct ResetOptions : programs::MpsOptions, node::NodePaths {
  bool force = false;    // also while pods hold GPUs
  bool dry_run = false;  // prints the actions and does none
  kube::KubeconfigChoice kubeconfig;
  std::string node_name;  // "" = the Node is not changed
};

// The exit status. 0: nothing of Tranche is left; 1: refused, or something could not be removed.
int run_reset(const ResetOptions& options);

}  // namespace tranche::doctor
