#pragma once
// `tranche reset`: removes from a node everything that Tranche's programs made there: the
// MPS daemons end, compute modes are given back, sockets, directories and CDI specs go, and so do our labels and our
// condition on the Node. It does nothing while a pod holds a GPU, unless forced, and nothing while `tranche node`
// runs, which would make it all again. Doing it twice is the same as once. One thread; blocks.
#include <string>

#include "programs/mps/mps_program.h"

namespace tranche::doctor {

struct ResetOptions {
  programs::MpsOptions mps;  // where the daemons are and how they are ended; flags and environment for all of it
  bool force = false;        // also while pods hold GPUs
  bool dry_run = false;      // says what would be done
  std::string run_dir = "/run/tranche";
  std::string plugin_dir = "/var/lib/kubelet/device-plugins";
  std::string pod_resources_socket = "/var/lib/kubelet/pod-resources/kubelet.sock";
  std::string cdi_root = "/var/run/cdi";
  std::string program_dir = "/var/lib/tranche/bin";
  std::string dra_driver;  // of the configuration, whatever is written here
  std::string kubeconfig;  // "" = as every pod is given it
  std::string node_name;   // "" = the Node is left alone
};

// 0: nothing of ours is left; 1: refused, or something could not be taken away.
int run_reset(const ResetOptions& options);

}  // namespace tranche::doctor
