// The node from outside: what the API server has, and what the agent's status page says through it.
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "doctor/verify/check_groups.h"
#include "doctor/verify/live/looks.h"
#include "kube/api_status.h"
#include "kube/client/ask_once.h"
#include "kube/node_condition.h"
#include "kube/object.h"
#include "kube/url.h"

namespace tranche::verify {
namespace {

using Json = nlohmann::json;

Result<Json> node_object(const kube::Access& access, const std::string& name) {
  TRY(const auto answer, kube::get_once(access, kube::node_path(kube::percent_encoded(name))));
  if (answer.status == kube::http::kNotFound)
    return fail(Kind::kNotFound, "the cluster has no node " + name + "; `kubectl get nodes` lists them",
                access.server.url());
  if (answer.status != kube::http::kOk)
    return fail(
        Kind::kDenied,
        fmt::format("the API server does not show the node {}: {} ({})", name, kube::why_not(answer), answer.status),
        access.server.url());
  Json node = json_of(answer.body);
  if (!node.is_object()) return fail(Kind::kInvalid, "the API server's answer is not a Node", access.server.url());
  return node;
}

}  // namespace

Result<ClusterLook> look_at_cluster(const VerifyOptions& options, Findings& checks) {
  TRY(const auto access, kube::PersonsAccess(options.kubeconfig, options.environment).get());
  TRY(const Json node, node_object(access, options.node));
  check_node(node, checks);
  observe::AgentsAsked asked = options.agents;
  asked.node = options.node;
  std::map<std::string, Json> pods;
  const auto agents = observe::agent_statuses(access, asked, [&](const Json& pod, const std::string& doubt) {
    check_pod(pod, doubt, checks);
    pods[kube::name_of(pod)] = pod;
  });
  const bool none = !agents && agents.error().kind == Kind::kNotFound;
  ClusterLook look{access, {}, {}};
  if (none) {
    checks.fail("agent.pods", asked.pod_namespace, agents.error().what,
                "see that the node matches the DaemonSet's nodeSelector and tolerations");
  } else if (agents && !agents->front().document.empty()) {
    look.agent = std::make_shared<const Json>(pods[agents->front().pod]);
    look.status = std::make_shared<const Json>(json_of(agents->front().document));
    check_node_against_agent(node, *look.status, checks);
    check_agent(*look.status, Json(), checks);
  } else if (agents && agents->front().disputed) {
    checks.fail("agent.ready", "", agents->front().problem,
                "kubectl get pods -o wide: a node has one agent, with --node-name");
  } else if (agents) {
    checks.skip(
        "agent.ready", "", "the agent's status page cannot be seen through the API server: " + agents->front().problem,
        "start tranche node with --listen :9400 and have the right to get pods/proxy, or run `tranche verify --local` "
        "on the node");
  }
  if (!agents && !none)
    return fail(agents.error().kind, fmt::format("{}. {}", agents.error().what, observe::kRightsToAskAgents),
                access.server.url());
  return look;
}

}  // namespace tranche::verify
