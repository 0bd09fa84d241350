// The node from outside: what the API server has, and what the agent's status page says through it.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/json_read.h"
#include "base/json_text.h"
#include "doctor/verify/checks.h"
#include "doctor/verify/live/looks.h"
#include "kube/api_status.h"
#include "kube/client/ask_once.h"
#include "kube/client/find_access.h"
#include "kube/client/list_pods.h"
#include "kube/http_status.h"
#include "kube/node_condition.h"
#include "kube/url.h"

namespace tranche::agent {
namespace {

using Json = nlohmann::json;

Result<Json> node_object(const kube::Access& access, const std::string& name) {
  TRY(const auto answer, host::get_once(access, kube::node_path(kube::percent_encoded(name))));
  if (answer.status == kube::http::kNotFound)
    return fail(Kind::kNotFound, "the cluster has no node " + name + "; `kubectl get nodes` lists them",
                access.server.url());
  if (answer.status != kube::http::kOk)
    return fail(Kind::kDenied,
                fmt::format("the API server does not show the node {}: {} ({})", name,
                            kube::status_of_body(answer.status, answer.body).message, answer.status),
                access.server.url());
  Json node = json_of(answer.body);
  if (!node.is_object()) return fail(Kind::kInvalid, "the API server's answer is no node", access.server.url());
  return node;
}

Result<std::vector<Json>> pods_of(const kube::Access& access, const std::string& node) {
  TRY(const auto pages, host::list_pods(access, {"spec.nodeName=" + node}));
  std::vector<Json> pods;
  for (const auto& page : pages) {
    const Json list = json_of(page);
    for (const Json& pod : list_at(list, "items")) pods.push_back(pod);
  }
  return pods;
}

// The port that a pod names "metrics", on which `tranche node --listen` answers; 0: it names none.
std::int64_t named_port(const Json& pod) {
  for (const Json& container : list_at(member_at(pod, "spec"), "containers"))
    for (const Json& port : list_at(container, "ports"))
      if (const auto number = number_at(port, "containerPort"); number && text_at(port, "name") == "metrics")
        return *number;
  return 0;
}

// The status document of the node agent, through the API server, and its pod; null, and why.
void ask_status_page(ClusterLook& look, const VerifyOptions& options, const std::vector<const Json*>& pods,
                     std::string& why) {
  why = "no pod of ours is there to be asked";
  for (const Json* pod : pods) {
    const auto named = named_port(*pod);
    const std::string name = text_at(member_at(*pod, "metadata"), "name");
    const std::string path = fmt::format("/api/v1/namespaces/{}/pods/{}:{}/proxy/status",
                                         kube::percent_encoded(text_at(member_at(*pod, "metadata"), "namespace")),
                                         kube::percent_encoded(name), named > 0 ? named : options.status_port);
    const auto answer = host::get_once(look.access, path);
    if (!answer) {
      why = to_string(answer.error());
      continue;
    }
    Json document = answer->status == kube::http::kOk ? json_of(answer->body) : Json();
    if (text_at(document, "program") == "node") {
      look.agent = std::make_shared<const Json>(*pod);
      look.status = std::make_shared<const Json>(std::move(document));
      return;
    }
    why = fmt::format("pod {} answered {}: {}", name, answer->status,
                      kube::status_of_body(answer->status, answer->body).message);
  }
}

}  // namespace

Result<ClusterLook> look_at_cluster(const VerifyOptions& options, const ReportCheck& report_check) {
  std::vector<Problem> problems;
  TRY(const auto access, host::find_access(options.kubeconfig, options.environment, problems));
  TRY(const Json node, node_object(access, options.node));
  TRY(const auto pods, pods_of(access, options.node));
  const verify::ClusterView cluster{node, pods, options.selector};
  verify::Findings checks;
  verify::check_node(cluster, checks);
  std::string why;
  ClusterLook look{access, {}, {}};
  ask_status_page(look, options, verify::pods_of_ours(cluster), why);
  if (look.status) {
    verify::check_node_against_agent(node, *look.status, checks);
    verify::check_agent(*look.status, Json(), checks);
  } else {
    checks.push_back(verify::skipped("agent.ready", "",
                                     "the agent's status page cannot be seen through the API server: " + why,
                                     "start tranche node with --listen :9400 and have the right to get pods/proxy, or "
                                     "run `tranche verify --local` on "
                                     "the node"));
  }
  for (const auto& check : checks) report_check(check);
  return look;
}

}  // namespace tranche::agent
