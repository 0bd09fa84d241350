// The status pages of a cluster's agents, asked once, as `tranche web` does.
#include "observe/cluster/agent_statuses.h"

#include "kube/kube_bed.h"

namespace tranche::kube {
namespace agent_statuses_test {

using ::testing::HasSubstr;

class AgentStatuses : public KubeBed {
 protected:
  void put_agent(const std::string& name, const std::string& node, const std::string& document,
                 const std::string& component = "node") {
    server_->put_pod("gpu", name,
                     R"({"metadata":{"labels":{"app.kubernetes.io/name":"tranche","app.kubernetes.io/component":")" +
                         component + R"("}},"spec":{"nodeName":")" + node +
                         R"(","containers":[{"name":"node","ports":[{"name":"metrics","containerPort":9999}]}]}})");
    if (document.empty()) return;
    // The stand-in takes "/status" at the end of a path for a part of the object before it.
    const std::string page = "/api/v1/namespaces/gpu/pods/" + name + ":9999";
    server_->serve_collection(page);
    server_->put(page, "proxy", document);
  }
};

// Promise: web: The agents are read by GET through the API server's proxy, once a round; one that is silent is named.
TEST_F(AgentStatuses, AreOneForEachNodeAndNothingIsChanged) {
  put_agent("agent-b", "b", R"({"program":"node","ready":true})");
  put_agent("agent-a", "a", "");
  put_agent("mps-a", "a", R"({"program":"mps"})", "mps");
  put_agent("agent-c-old", "c", "");
  put_agent("agent-c-new", "c", R"({"program":"node"})");
  put_agent("agent-d", "d", R"({"program":"mps"})");
  const auto all = agent::agent_statuses(access(), {});
  ASSERT_TRUE(all) << to_string(all.error());
  ASSERT_EQ(all->size(), 4u);
  EXPECT_EQ((*all)[0].node, "a");
  EXPECT_THAT((*all)[0].problem, HasSubstr("404"));
  EXPECT_THAT((*all)[1].document, HasSubstr("\"ready\""));
  EXPECT_NE((*all)[2].document, "") << "of two agents of a node, the one that answers";
  EXPECT_THAT((*all)[3].problem, HasSubstr("not a node agent"));
  for (const auto& request : server_->requests()) EXPECT_EQ(request.method, "GET") << request.path;
  EXPECT_EQ(server_->watches(), 0u);
}

TEST_F(AgentStatuses, WithoutTheRightTheApiServersAnswerIsTheError) {
  server_->refuse(1, 403, R"({"kind":"Status","code":403,"message":"pods is forbidden"})",
                  [](const sim::ApiRequest&) { return true; });
  const auto none = agent::agent_statuses(access(), {});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().kind, Kind::kDenied);
  EXPECT_THAT(none.error().what, HasSubstr("pods is forbidden"));
  const auto empty = agent::agent_statuses(access(), {});
  ASSERT_TRUE(empty);
  EXPECT_TRUE(empty->empty());
}

}  // namespace agent_statuses_test
}  // namespace tranche::kube
