// The status pages of a cluster's agents, asked once, as `tranche web` does.
#include "observe/cluster/agent_statuses.h"

#include <nlohmann/json.hpp>

#include "kube/kube_bed.h"

namespace tranche::kube {
namespace agent_statuses_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Json = nlohmann::json;

constexpr const char* kSets = "/apis/apps/v1/namespaces/gpu/daemonsets";

struct AgentPod {
  std::string name;
  std::string node;
  std::string document = {};  // "" = the page is not there
  std::string in = "gpu";
  std::string component = "node";
  std::string account = "agent";
  std::string owner = "set";
  bool ready = false;
  bool controlled = true;
};

std::string document_of(const std::string& node) {
  return R"({"program":"node","ready":true,"node":")" + node + "\"}";
}

class AgentStatuses : public KubeBed {
 protected:
  AgentStatuses() {
    asked_.pod_namespace = "gpu";
    server_->serve_collection(kSets);
    server_->put(kSets, "set", R"({"spec":{"template":{"spec":{"serviceAccountName":"agent"}}}})");
  }

  // A pod is in the list of its namespace, and in that of the cluster.
  void put_agent(const AgentPod& pod) {
    const std::string set = server_->object(kSets, pod.owner);
    const Json object{
        {"metadata",
         {{"labels", {{"app.kubernetes.io/name", "tranche"}, {"app.kubernetes.io/component", pod.component}}},
          {"ownerReferences",
           {{{"kind", "DaemonSet"},
             {"controller", pod.controlled},
             {"uid", set.empty() ? "of-no-set" : Json::parse(set)["metadata"]["uid"].get<std::string>()}}}}}},
        {"spec",
         {{"nodeName", pod.node},
          {"serviceAccountName", pod.account},
          {"containers", {{{"name", "node"}, {"ports", {{{"name", "metrics"}, {"containerPort", 9999}}}}}}}}},
        {"status", {{"conditions", {{{"type", "Ready"}, {"status", pod.ready ? "True" : "False"}}}}}}};
    const std::string pods = "/api/v1/namespaces/" + pod.in + "/pods";
    server_->put_pod(pod.in, pod.name, object.dump());
    server_->serve_collection(pods);
    server_->put(pods, pod.name, object.dump());
    if (pod.document.empty()) return;
    // The stand-in takes "/status" at the end of a path for a part of the object before it.
    const std::string page = pods + "/" + pod.name + ":9999";
    server_->serve_collection(page);
    server_->put(page, "proxy", pod.document);
  }
  std::vector<observe::AgentStatus> ask() {
    const auto all = observe::agent_statuses(access(), asked_);
    EXPECT_TRUE(all) << to_string(all.error());
    return all.value_or(std::vector<observe::AgentStatus>());
  }
  std::size_t asked_pages_of(const std::string& part) const {
    return count([&](const sim::ApiRequest& r) { return r.path.find(part) != std::string::npos; });
  }

  observe::AgentsAsked asked_;
};

// Promise: web: The agents are read by GET through the API server's proxy, once a round; one that is silent is named.
TEST_F(AgentStatuses, AreOneForEachNodeAndNothingIsChanged) {
  put_agent({"agent-b", "b", document_of("b")});
  put_agent({"agent-a", "a"});
  put_agent({.name = "mps-a", .node = "a", .document = R"({"program":"mps"})", .component = "mps"});
  put_agent({"agent-c-old", "c"});
  put_agent({"agent-c-new", "c", document_of("c")});
  put_agent({"agent-d", "d", R"({"program":"mps"})"});
  const auto all = ask();
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[0].node, "a");
  EXPECT_THAT(all[0].problem, HasSubstr("404"));
  EXPECT_THAT(all[1].document, HasSubstr("\"ready\""));
  EXPECT_NE(all[2].document, "") << "of two pods of a node, the one that answers";
  EXPECT_THAT(all[3].problem, HasSubstr("not a node agent"));
  EXPECT_EQ(asked_pages_of("mps-a"), 0u);
  for (const auto& request : server_->requests()) EXPECT_EQ(request.method, "GET") << request.path;
  EXPECT_EQ(server_->watches(), 0u);
}

// Promise: web: A pod of another namespace is not asked, and of one namespace only pods of the agents' DaemonSet.
TEST_F(AgentStatuses, APodThatPosesAsAnAgentIsNotAsked) {
  const auto refuse = [this](const std::string& part) {
    server_->refuse(-1, 0, "", [part](const auto& r) { return r.path.find(part) != std::string::npos; });
  };
  refuse("aaa-tenant");
  refuse("/posing-");
  put_agent({"agent-n1", "n1", document_of("n1")});
  for (int i = 0; i < 40; ++i)
    put_agent({.name = "evil-" + std::to_string(i), .node = "n" + std::to_string(i), .in = "aaa-tenant"});
  put_agent({.name = "posing-account", .node = "n1", .account = "tenant"});
  put_agent({.name = "posing-owner", .node = "n1", .owner = "none"});
  put_agent({.name = "posing-owned", .node = "n1", .controlled = false});
  const auto all = ask();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_THAT(all[0].document, HasSubstr("\"ready\":true")) << all[0].problem;
  EXPECT_EQ(asked_pages_of("aaa-tenant") + asked_pages_of("posing-") + list_requests(), 0u);
}

TEST_F(AgentStatuses, ADaemonSetWithoutAServiceAccountHasTheDefaultOne) {
  server_->put(kSets, "plain", R"({"spec":{"template":{"spec":{}}}})");
  put_agent({.name = "a", .node = "n1", .document = document_of("n1"), .account = "default", .owner = "plain"});
  EXPECT_NE(ask().at(0).document, "");
}

// Promise: web: An agent that answers as another node, or beside a second one, is a problem and not data.
TEST_F(AgentStatuses, ANodeHasOneAgentAndItsOwn) {
  put_agent({"agent-a", "a", document_of("b")});
  put_agent({"agent-b", "b", R"({"program":"node"})"});
  put_agent({"agent-c", "c", document_of("c")});
  put_agent({"agent-c-2", "c", document_of("c")});
  const auto all = ask();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_THAT(all[0].problem, HasSubstr("answers as node \"b\""));
  EXPECT_THAT(all[1].problem, HasSubstr("answers as node \"\""));
  EXPECT_THAT(all[2].problem, HasSubstr("pods agent-c and agent-c-2 both answer"));
  for (const auto& each : all) EXPECT_EQ(each.document, "") << each.node;
}

// Promise: web: One deadline ends a round; silent agents are named, and do not hold up those that are ready.
TEST_F(AgentStatuses, SilentAgentsEndWithTheRound) {
  server_->refuse(-1, 0, "", [](const auto& r) { return r.path.find("silent-") != std::string::npos; });
  for (int i = 0; i < 40; ++i) put_agent({"silent-" + std::to_string(i), "n" + std::to_string(i)});
  put_agent({.name = "works", .node = "works", .document = document_of("works"), .ready = true});
  // The silent ones never end: each round ends by its deadline, and one is long enough for the agent that works.
  std::vector<observe::AgentStatus> all;
  for (asked_.deadline = std::chrono::milliseconds(50); asked_.deadline < kSoon; asked_.deadline *= 2) {
    all = observe::agent_statuses(access(), asked_).value_or(std::vector<observe::AgentStatus>());
    if (!all.empty() && !all.back().document.empty()) break;
  }
  ASSERT_EQ(all.size(), 41u);
  EXPECT_EQ(all.back().node, "works");
  EXPECT_EQ(all.back().problem, "");
  for (std::size_t i = 0; i < 40; ++i) {
    EXPECT_EQ(all[i].document, "");
    EXPECT_THAT(all[i].problem, AllOf(HasSubstr("silent-"), HasSubstr("does not answer within")));
  }
}

TEST_F(AgentStatuses, AnApiServerThatIsSilentEndsWithTheRound) {
  server_->mute(true);
  asked_.deadline = std::chrono::milliseconds(1);
  const auto none = observe::agent_statuses(access(), asked_);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().kind, Kind::kUnavailable);
  EXPECT_THAT(none.error().what, HasSubstr("the API server does not answer within 0.001 s"));
}

TEST_F(AgentStatuses, WithoutTheRightTheApiServersAnswerIsTheError) {
  server_->refuse(1, 403, R"({"kind":"Status","code":403,"message":"pods is forbidden"})",
                  [](const sim::ApiRequest& r) { return r.path.ends_with("/pods"); });
  server_->serve_collection("/api/v1/namespaces/gpu/pods");
  const auto none = observe::agent_statuses(access(), asked_);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().kind, Kind::kDenied);
  EXPECT_THAT(none.error().what, HasSubstr("pods is forbidden"));
  const auto empty = observe::agent_statuses(access(), asked_);
  ASSERT_FALSE(empty);
  EXPECT_EQ(empty.error().kind, Kind::kNotFound);
  EXPECT_THAT(empty.error().what, HasSubstr("the namespace gpu has no node agents"));
}

}  // namespace agent_statuses_test
}  // namespace tranche::kube
