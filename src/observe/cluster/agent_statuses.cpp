#include "observe/cluster/agent_statuses.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/json_text.h"
#include "base/text.h"
#include "kube/access.h"
#include "kube/client/ask_once.h"
#include "kube/object.h"
#include "os/loop/loop.h"

namespace tranche::observe {
namespace {

using Json = nlohmann::json;

// The port that a pod names "metrics", on which `tranche node --listen` answers.
std::int64_t port_of(const Json& pod, std::int64_t otherwise) {
  for (const Json& container : list_at(member_at(pod, "spec"), "containers"))
    if (const auto number = number_at(entry_at(container, "ports", "name", "metrics"), "containerPort")) return *number;
  return otherwise;
}

// Why a pod is not one of a DaemonSet; "" = it is.
std::string doubt_of(const Json& pod, const Json& daemon_sets) {
  const std::string account = text_at(member_at(pod, "spec"), "serviceAccountName");
  for (const Json& owner : list_at(member_at(pod, "metadata"), "ownerReferences"))
    for (const Json& set : list_at(daemon_sets, "items")) {
      if (!truth_at(owner, "controller") || text_at(owner, "uid") != text_at(member_at(set, "metadata"), "uid"))
        continue;
      const Json& of_pods = member_at(member_at(member_at(set, "spec"), "template"), "spec");
      std::string named = text_at(of_pods, "serviceAccountName");
      if (named.empty()) named = "default";
      if (account == named) return {};
      return fmt::format("its service account is {}, that of its DaemonSet is {}", in_quotes(account),
                         in_quotes(named));
    }
  return "no DaemonSet of its namespace controls it";
}

bool is_ready(const Json& pod) {
  return text_at(entry_at(member_at(pod, "status"), "conditions", "type", "Ready"), "status") == "True";
}

void put_answer(AgentStatus& status, const kube::KubeAnswer& answer) {
  const Json document = answer.status == kube::http::kOk ? json_of(answer.body) : Json();
  const std::string node = text_at(document, "node");
  if (answer.status == 0) {
    status.problem = "the API server does not answer: " + answer.why;
  } else if (answer.status != kube::http::kOk) {
    status.problem = fmt::format("{} ({})", kube::why_not(answer), answer.status);
  } else if (text_at(document, "program") != "node") {
    status.problem = "what answers is not a node agent";
  } else if (node != status.node) {
    status.problem = fmt::format("the agent of this node answers as node {} (--node-name)", in_quotes(node));
  } else {
    status.document = answer.body;
    status.problem.clear();
  }
  status.disputed = answer.status == kube::http::kOk && status.document.empty();
}

std::vector<AgentStatus> one_of_each_node(std::vector<AgentStatus> agents) {
  std::map<std::string, std::vector<AgentStatus*>> nodes;  // those that answered first
  for (auto& agent : agents) {
    auto& of_node = nodes[agent.node];
    of_node.insert(agent.document.empty() ? of_node.end() : of_node.begin(), &agent);
  }
  std::vector<AgentStatus> all;
  for (auto& [node, of_node] : nodes) {
    AgentStatus& status = all.emplace_back(std::move(*of_node[0]));
    if (of_node.size() == 1 || of_node[1]->document.empty()) continue;
    status.document.clear();
    status.disputed = true;
    status.problem = fmt::format(
        "the pods {} and {} both answer for this node; if that lasts longer than an update, delete the wrong one",
        of_node[1]->pod, status.pod);
  }
  return all;
}

}  // namespace

Result<std::vector<AgentStatus>> agent_statuses(const kube::Access& access, const AgentsAsked& asked,
                                                const OnPod& on_pod) {
  TRY(const auto server, kube::BlockingClient::open(access));
  os::Loop& loop = *server.loop;
  os::Timer deadline(loop);
  bool over = false;
  deadline.start(asked.deadline, [&] {
    over = true;
    loop.stop();
  });
  const std::string in = "/namespaces/" + kube::percent_encoded(asked.pod_namespace);
  const std::string late =
      fmt::format("does not answer within {:g} s", std::chrono::duration<double>(asked.deadline).count());
  const auto list = [&](const std::string& path) -> Result<Json> {
    std::optional<kube::KubeAnswer> answer;
    server.client->list(path, [&](const kube::KubeAnswer& got) {
      answer = got;
      loop.stop();
    });
    if (!over) loop.run();
    if (!answer) return fail(Kind::kUnavailable, "the API server " + late);
    if (answer->status == kube::http::kOk) return json_of(answer->body);
    return std::unexpected(kube::refusal(*answer, "the API server does not list " + path.substr(0, path.find('?'))));
  };
  std::string pods_path = "/api/v1" + in + "/pods?labelSelector=" + kube::percent_encoded(asked.selector);
  if (!asked.node.empty()) pods_path += "&fieldSelector=" + kube::percent_encoded("spec.nodeName=" + asked.node);
  TRY(const Json daemon_sets, list("/apis/apps/v1" + in + "/daemonsets"));
  TRY(const Json pods, list(pods_path));

  std::vector<const Json*> ours;
  for (const Json& pod : list_at(pods, "items")) {
    const std::string doubt = doubt_of(pod, daemon_sets);
    if (on_pod) on_pod(pod, doubt);
    const Json& labels = member_at(member_at(pod, "metadata"), "labels");
    if (doubt.empty() && text_at(labels, "app.kubernetes.io/component") != "mps") ours.push_back(&pod);
  }
  if (ours.empty())
    return fail(Kind::kNotFound,
                fmt::format("the namespace {} has no node agents{}: no pod with the labels {} is of their DaemonSet; "
                            "name their namespace with --namespace",
                            asked.pod_namespace, asked.node.empty() ? "" : " on " + asked.node, asked.selector));
  // There are few connections without HTTP/2: pods of nodes that are down must not hold up the others.
  std::ranges::stable_partition(ours, [](const Json* pod) { return is_ready(*pod); });
  std::vector<AgentStatus> agents;
  agents.reserve(ours.size());
  std::size_t answered = 0;
  for (const Json* pod : ours) {
    const std::string name = text_at(member_at(*pod, "metadata"), "name");
    AgentStatus& agent =
        agents.emplace_back(text_at(member_at(*pod, "spec"), "nodeName"), "", "the pod " + name + " " + late, name);
    server.client->get(fmt::format("/api/v1{}/pods/{}:{}/proxy/status", in, kube::percent_encoded(name),
                                   port_of(*pod, asked.status_port)),
                       [&](const kube::KubeAnswer& answer) {
                         put_answer(agent, answer);
                         if (++answered == ours.size()) loop.stop();
                       });
  }
  if (!over) loop.run();
  return one_of_each_node(std::move(agents));
}

Result<std::vector<AgentStatus>> agent_statuses(kube::PersonsAccess& person, const AgentsAsked& asked) {
  TRY(const auto access, person.get());
  auto statuses = agent_statuses(access, asked);
  if (!statuses && statuses.error().code == kube::http::kUnauthorized) person.refused();
  return statuses;
}

}  // namespace tranche::observe
