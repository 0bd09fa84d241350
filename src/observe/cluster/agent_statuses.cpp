#include "observe/cluster/agent_statuses.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json_read.h"
#include "base/json_text.h"
#include "kube/api_status.h"
#include "kube/client/kube_client.h"
#include "kube/http_status.h"
#include "kube/url.h"
#include "os/loop/loop.h"

namespace tranche::agent {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kAtOnce = 32;

struct Agent {
  std::string path;  // of its status page
  AgentStatus status;
};

// The port that a pod names "metrics", on which `tranche node --listen` answers.
std::int64_t port_of(const Json& pod, std::int64_t otherwise) {
  for (const Json& container : list_at(member_at(pod, "spec"), "containers"))
    for (const Json& port : list_at(container, "ports"))
      if (const auto number = number_at(port, "containerPort"); number && text_at(port, "name") == "metrics")
        return *number;
  return otherwise;
}

std::vector<Agent> agents_of(const Json& list, std::int64_t port) {
  std::vector<Agent> agents;
  for (const Json& pod : list_at(list, "items")) {
    const Json& metadata = member_at(pod, "metadata");
    const Json& labels = member_at(metadata, "labels");
    if (text_at(labels, "app.kubernetes.io/component") == "mps") continue;
    Agent& agent = agents.emplace_back();
    agent.status.node = text_at(member_at(pod, "spec"), "nodeName");
    agent.path = fmt::format("/api/v1/namespaces/{}/pods/{}:{}/proxy/status",
                             kube::percent_encoded(text_at(metadata, "namespace")),
                             kube::percent_encoded(text_at(metadata, "name")), port_of(pod, port));
  }
  // A node may have two for a moment, while one takes the place of the other.
  std::ranges::stable_sort(agents, {}, [](const Agent& agent) { return agent.status.node; });
  return agents;
}

class Round {
 public:
  Round(host::Loop& loop, host::KubeClient& client) : loop_(loop), client_(client) {}

  Status run(const AgentsAsked& asked) {
    client_.list("/api/v1/pods?labelSelector=" + kube::percent_encoded(asked.selector),
                 [this, &asked](const host::KubeAnswer& answer) { on_list(answer, asked.status_port); });
    loop_.run();
    if (error_) return std::unexpected(*error_);
    return {};
  }

  std::vector<AgentStatus> take() {
    std::vector<AgentStatus> all;
    for (auto& agent : agents_) {
      // Of two agents of a node, the one that answers.
      if (!all.empty() && all.back().node == agent.status.node) {
        if (all.back().document.empty()) all.back() = std::move(agent.status);
        continue;
      }
      all.push_back(std::move(agent.status));
    }
    return all;
  }

 private:
  void on_list(const host::KubeAnswer& answer, std::int64_t port) {
    if (answer.status != kube::http::kOk) {
      error_ = Error{answer.status == 0 ? Kind::kUnavailable : Kind::kDenied,
                     answer.status == 0
                         ? "the API server does not answer: " + answer.why
                         : fmt::format("the API server does not list pods: {} ({})",
                                       kube::status_of_body(answer.status, answer.body).message, answer.status),
                     {},
                     answer.status};
      return loop_.stop();
    }
    agents_ = agents_of(json_of(answer.body), port);
    if (agents_.empty()) return loop_.stop();
    for (std::size_t i = 0; i < std::min(kAtOnce, agents_.size()); ++i) ask_next();
  }

  void ask_next() {
    if (next_ == agents_.size()) return;
    Agent& agent = agents_[next_++];
    client_.get(agent.path, [this, &agent](const host::KubeAnswer& answer) {
      if (answer.status == kube::http::kOk && text_at(json_of(answer.body), "program") == "node") {
        agent.status.document = answer.body;
      } else {
        agent.status.problem =
            answer.status == 0 ? "the API server does not answer: " + answer.why
            : answer.status == kube::http::kOk
                ? "what answers is not a node agent"
                : fmt::format("{} ({})", kube::status_of_body(answer.status, answer.body).message, answer.status);
      }
      if (++answered_ == agents_.size()) return loop_.stop();
      ask_next();
    });
  }

  host::Loop& loop_;
  host::KubeClient& client_;
  std::vector<Agent> agents_;
  std::size_t next_ = 0;
  std::size_t answered_ = 0;
  std::optional<Error> error_;
};

}  // namespace

Result<std::vector<AgentStatus>> agent_statuses(const kube::Access& access, const AgentsAsked& asked) {
  TRY(const auto loop, host::Loop::open());
  TRY(auto curl, host::KubeClient::load());
  TRY(const auto client, host::KubeClient::open(*loop, std::move(curl), access));
  Round round(*loop, *client);
  TRY_STATUS(round.run(asked));
  return round.take();
}

}  // namespace tranche::agent
