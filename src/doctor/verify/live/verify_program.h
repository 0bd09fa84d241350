#pragma once
// `tranche verify`: proves what a node promises. From outside by what the API server knows and what the node agent's
// status page says through it; on the node by the two status sockets and the driver; and by probes that take a grant
// and try its limits. It changes nothing on the node. One thread; blocks.
#include <string>

#include "config/resolve.h"
#include "kube/client/find_access.h"
#include "observe/cluster/agent_statuses.h"

namespace tranche::verify {

struct VerifyOptions {
  std::string node;     // as the cluster calls it
  bool local = false;   // this node, without an API server
  bool deep = false;    // probes take free slots and try their limits: as pods, or with `local` as processes
  bool inside = false;  // this container: what it holds
  bool json = false;
  std::string junit;      // a file for the same as JUnit's XML; "" = none
  bool terminal = false;  // colours

  kube::KubeconfigChoice kubeconfig;
  observe::AgentsAsked agents;
  std::string pod_overrides;  // a file with JSON that is merged over probe pods
  std::string sms;            // inside: SMs of the share, "12" or "GPU-a=12,GPU-b=14"; "" = not known
  bool observed = false;      // inside: the guard only reports

  config::GivenFlags flags;  // the device plugin's: driver root, MPS root
  config::Environment environment;
  config::UnknownKeys unknown_keys = config::UnknownKeys::kWarned;
  std::string run_dir = "/run/tranche";
  std::string plugin_dir = "/var/lib/kubelet/device-plugins";
  std::string pod_resources_socket = "/var/lib/kubelet/pod-resources/kubelet.sock";
  std::string cdi_root = "/var/run/cdi";  // with the specifications of claims
  std::string mps_root_here;              // where flags.mpsRoot is for this process; "" = the same path
  std::string mps_control;                // "" = looked for
};

// 0: nothing failed; 1: something failed; 2: nothing could be checked, or the options make no sense.
int run_verify(const VerifyOptions& options);

}  // namespace tranche::verify
