#pragma once
// `tranche verify`: proves what a node promises. From outside, it reads the API server's objects and, through the API
// server, the node agent's status page; on the node, the two status sockets and the driver. Probes take a grant and try
// its limits. Changes nothing on the node. One thread; blocks.
#include <string>

#include "config/resolve.h"
#include "observe/cluster/agent_statuses.h"

namespace tranche::doctor {

struct VerifyOptions {
  std::string node;     // its name in the cluster
  bool local = false;   // checks this node, without an API server
  bool deep = false;    // probes take free slots and try their limits: as pods, or with `local` as processes
  bool inside = false;  // checks the grants of this container
  bool json = false;
  std::string junit;      // a file for the report as JUnit's XML; "" = none
  bool terminal = false;  // colours

  observe::AgentsAsked agents;
  std::string pod_overrides;  // a file with JSON that is merged into probe pods
  std::string sms;            // inside: SMs of the share, "12" or "GPU-a=12,GPU-b=14"; "" = not known
  bool observed = false;      // inside: the guard reports and does not end processes

  config::GivenFlags flags;  // the device plugin's: driver root, MPS root
  config::Environment environment;
  config::UnknownKeys unknown_keys = config::UnknownKeys::kWarned;
  std::string run_dir = "/run/tranche";
  std::string plugin_dir = "/var/lib/kubelet/device-plugins";
  std::string pod_resources_socket = "/var/lib/kubelet/pod-resources/kubelet.sock";
  std::string cdi_root = "/var/run/cdi";  // with the specifications of claims
  std::string mps_root_here;              // the path of flags.mpsRoot for this process; "" = the same path
  std::string mps_control;                // "" = searched for
};

// The exit status. 0: no check failed; 1: a check failed; 2: no check could run, or the options contradict each other.
int run_verify(const VerifyOptions& options);

}  // namespace tranche::doctor
