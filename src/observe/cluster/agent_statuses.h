#pragma once
// The status pages of a cluster's node agents, read through the API server's proxy (right: get pods/proxy). For moment
// commands: asks once, all agents at the same time, and keeps nothing. Blocks on a loop of its own; every request has
// the client's deadline.
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "kube/access.h"

namespace tranche::agent {

struct AgentStatus {
  std::string node;
  std::string document;  // as it came; "" = none
  std::string problem;   // why there is none
};

struct AgentsAsked {
  std::string selector = "app.kubernetes.io/name=tranche";  // labels of our pods
  std::uint16_t status_port = 9400;                         // where a pod names no port "metrics"
};

// By node, one for each agent; an agent that does not answer is an entry with its problem. Pods of ours that are no
// node agents (those of `tranche mps`) are left out. An Error: the API server does not list pods.
Result<std::vector<AgentStatus>> agent_statuses(const kube::Access& access, const AgentsAsked& asked);

}  // namespace tranche::agent
