#pragma once
// NVIDIA's MIG manager by name, as the GPU Operator's DaemonSet starts it: the MIG manager of the node agent in a
// program of its own. While it changes GPUs it pauses the operator's other pods on this node by their labels; who holds
// a MIG device, kubelet says. It writes no events and no condition, because the operator's role does not allow it.
#include <string>

#include "config/resolve.h"
#include "mig/live/mig_manager.h"

namespace tranche::programs {

struct MigManagerOptions {
  mig::MigSettings mig;                        // but for the environment
  std::string kubeconfig;                      // "" = as every pod is given it
  std::string operator_namespace = "default";  // of the pods that it pauses
  std::string driver_root = "/";               // where the driver's files are for this process
  std::string pod_resources_socket;            // kubelet's
  bool reboot_asked = false;                   // WITH_REBOOT: never done, and said
  bool host_clients_asked = false;             // WITH_SHUTDOWN_HOST_GPU_CLIENTS: never done, and said
  config::Environment environment;
};

// The exit status: 0 after SIGTERM, SIGINT or SIGQUIT.
int run_mig_manager(const MigManagerOptions& options);

}  // namespace tranche::programs
