#pragma once
// `tranche verify`: proves what a node promises. From outside, it reads the API server's objects and, through the API
// server, the node agent's status page; on the node, the two status sockets and the driver. Probes take a grant and try
// its limits. Changes nothing on the node. One thread; blocks.
#include <string>

#include "base/result.h"
#include "config/resolve.h"
#include "doctor/finding.h"
#include "node/node_program.h"
#include "observe/cluster/agent_statuses.h"

namespace tranche::doctor {

struct VerifyOptions : config::Invocation, node::NodePaths {  // with the device plugin's flags: driver root, MPS root
  std::string node;                                           // its name in the cluster
  bool local = false;                                         // checks this node, without an API server
  bool deep = false;    // probes take free slots and try their limits: as pods, or with `local` as processes
  bool inside = false;  // checks the grants of this container
  bool json = false;
  std::string junit;      // a file for the report as JUnit's XML; "" = none
  bool terminal = false;  // colours

  observe::AgentsAsked agents;
  std::string pod_overrides;  // a file with JSON that is merged into probe pods
  std::string sms;            // inside: SMs of the share, "12" or "GPU-a=12,GPU-b=14"; "" = not known
  bool observed = false;      // inside: the guard reports and does not end processes

  std::string mps_root_here;  // the path of flags.mpsRoot for this process; "" = the same path
  std::string mps_control;    // "" = searched for
};

// The exit status. 0: no check failed; 1: a check failed; 2: no check could run, or the options contradict each other.
int run_verify(const VerifyOptions& options);

// Its parts: the places on the node to try limits from, each of which adds findings while it runs. Each function runs
// the loop while it waits.

// Paths of this process.
struct VerifyPlaces {
  std::string mps_root;       // as the node names it
  std::string mps_root_here;  // as this process sees it
  std::string driver_root;    // of the driver's files
};

// In a container that holds shares of MPS.
Status try_inside(const VerifyOptions& options, Findings& checks);
// On the node, by slots that no pod holds.
Status try_limits(const VerifyOptions& options, const VerifyPlaces& places, Findings& checks);

}  // namespace tranche::doctor
