#pragma once
// The status pages of a cluster's node agents, read through the API server's proxy. For moment commands: asks once, all
// agents at the same time, and keeps nothing. Blocks on a loop of its own, until one deadline for everything.
// A label is not an identity, since every tenant can set it: an agent is a pod of the namespace with a DaemonSet of the
// namespace as controller, and with the service account of that DaemonSet.
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "kube/access.h"
#include "kube/client/find_access.h"

namespace tranche::observe {

struct AgentStatus {
  std::string node;
  std::string document;   // as it came; "" = none
  std::string problem;    // why there is none
  std::string pod = {};   // name of the one that was asked
  bool disputed = false;  // something answers, and it is not this node's agent, or not alone
};

inline constexpr const char* kRightsToAskAgents =
    "It needs the rights to list pods and daemonsets and to get pods/proxy, in the namespace of the node agents "
    "(--namespace).";
// What to do about an error of agent_statuses(), as a line of its own below it; "" if the error says it.
inline std::string remedy_for(const Error& error) {
  return error.kind == Kind::kDenied ? std::string("\n  ") + kRightsToAskAgents : std::string();
}

struct AgentsAsked {
  kube::KubeconfigChoice kubeconfig;  // of a person
  std::string pod_namespace = "tranche";
  std::string selector = "app.kubernetes.io/name=tranche";  // labels of our pods
  std::uint16_t status_port = 9400;                         // where a pod names no port "metrics"
  Duration deadline = std::chrono::seconds(10);             // of the lists and all answers
  std::string node;                                         // only its pods; "" = of all nodes
};

// A pod with the labels of the selector, and why it is not believed to be ours ("" = it is).
using OnPod = std::function<void(const nlohmann::json& pod, const std::string& doubt)>;

// By node. An agent that does not answer, answers as another node, or answers beside a second one is an entry with its
// problem. Pods that are not node agents are left out. An Error: the API server does not list; kNotFound: there are no
// agents. `on_pod` runs inside the call.
Result<std::vector<AgentStatus>> agent_statuses(const kube::Access& access, const AgentsAsked& asked,
                                                const OnPod& on_pod = {});
// With the access of a person, whose credentials are renewed for the next call if the API server refuses them.
Result<std::vector<AgentStatus>> agent_statuses(kube::PersonsAccess& person, const AgentsAsked& asked);

}  // namespace tranche::observe
