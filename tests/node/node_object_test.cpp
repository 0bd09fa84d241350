// The agent's condition and its startup taint on a Node that kubelet and others write to as well.
#include "node/bed.h"
#include "standins/kube/api_server.h"

namespace tranche::e2e {
namespace {

// A Node as kubelet keeps it, under the agent's own hands.
class NodeObjectOfTheCluster : public NodeBed {
 protected:
  NodeObjectOfTheCluster() : api_(sim::ApiServer::start()) {
    api_->put(kNodes, "n1",
              R"({"spec":{"taints":[{"key":"tranche.io/starting","effect":"NoSchedule"},
{"key":"somebody.else/taint","effect":"NoExecute"}]},"status":{"conditions":[
{"type":"MemoryPressure","status":"False","reason":"KubeletHasSufficientMemory"},
{"type":"Ready","status":"True","reason":"KubeletReady"}]}})");
    write("kubeconfig", api_->kubeconfig(""));
  }
  Program& start_agent() {
    return start_node(
        {"--kubeconfig", in("kubeconfig"), "--node-name", "n1", "--startup-taint", "tranche.io/starting"});
  }
  Json node() const { return Json::parse(api_->object(kNodes, "n1"), nullptr, false); }
  Json condition(const std::string& type) const {
    const Json object = node();
    for (const auto& one : object["status"]["conditions"])
      if (one["type"] == type) return one;
    return Json::object();
  }
  bool until_condition(const std::string& status, const std::string& reason) {
    until_node([&](const Json&) {  // its status changes with every answer
      const Json mine = condition("TrancheReady");
      return mine.value("status", "") == status && mine.value("reason", "") == reason;
    });
    return !HasFailure();
  }
  Strings taints() const {
    Strings keys;
    const Json object = node();
    for (const auto& taint : object["spec"]["taints"]) keys.push_back(taint["key"]);
    return keys;
  }
  static constexpr const char* kNodes = "/api/v1/nodes";

  std::unique_ptr<sim::ApiServer> api_;
};

// Promise: api-server/condition: The condition follows the driver and stands beside kubelet's.
TEST_F(NodeObjectOfTheCluster, HasTheConditionBesideKubeletsAndItFollowsTheDriver) {
  make_node(1);
  write("config.yaml", "version: v1\n");
  start_kubelet();
  start_agent();
  ASSERT_TRUE(until_condition("True", "Serving"));
  EXPECT_EQ(node()["status"]["conditions"].size(), 3u);
  EXPECT_EQ(condition("Ready")["reason"], "KubeletReady");
  EXPECT_EQ(condition("MemoryPressure")["status"], "False");
  sim_node({"driver", "absent"});
  sim_node({"fail", "*", "15"});
  ASSERT_TRUE(until_condition("False", "NoDriver"));
  sim_node({"clear"});
  sim_node({"driver", "present"});
  ASSERT_TRUE(until_condition("True", "Serving"));
  EXPECT_EQ(node()["status"]["conditions"].size(), 3u) << "one entry of ours, however often it changed";
}

// Promise: api-server/condition: The startup taint is removed once and other taints stay.
TEST_F(NodeObjectOfTheCluster, KeepsTheStartupTaintUntilItServesAndLosesNoOther) {
  make_node(1);
  sim_node({"driver", "absent"});
  write("config.yaml", "version: v1\n");
  start_kubelet();
  Program& agent = start_agent();
  ASSERT_TRUE(until_condition("False", "NoDriver"));
  EXPECT_EQ(taints(), (Strings{"tranche.io/starting", "somebody.else/taint"}));
  sim_node({"driver", "present"});
  ASSERT_TRUE(until_healthy(1));
  EXPECT_TRUE(until_says(agent, "kube.taint_removed"));
  EXPECT_EQ(taints(), Strings{"somebody.else/taint"});
  // Somebody who taints it again has a reason.
  api_->put(kNodes, "n1", R"({"spec":{"taints":[{"key":"tranche.io/starting","effect":"NoSchedule"}]}})");
  write("config.yaml", sharing("timeSlicing", 2));
  ASSERT_TRUE(until_healthy(2));
  sim_node({"driver", "absent"});
  sim_node({"fail", "*", "15"});
  ASSERT_TRUE(until_condition("False", "NoDriver"));
  sim_node({"clear"});
  sim_node({"driver", "present"});
  ASSERT_TRUE(until_condition("True", "Serving"));
  EXPECT_EQ(taints(), Strings{"tranche.io/starting"});
}

// Promise: api-server/condition: A failed write of the condition is repeated.
TEST_F(NodeObjectOfTheCluster, IsWrittenAgainAfterARefusalAndAConflict) {
  const auto of_status = [](const sim::ApiRequest& r) { return r.method == "PATCH" && r.path.ends_with("/status"); };
  const auto of_taint = [](const sim::ApiRequest& r) { return r.method == "PATCH" && r.path.ends_with("/n1"); };
  api_->refuse(1, 500, "", of_status);
  api_->refuse(1, 409, "", of_taint);
  make_node(1);
  write("config.yaml", "version: v1\n");
  start_kubelet();
  Program& agent = start_agent();
  ASSERT_TRUE(until_condition("True", "Serving"));
  EXPECT_TRUE(until_says(agent, "kube.taint_removed"));
  EXPECT_EQ(taints(), Strings{"somebody.else/taint"});
}

}  // namespace
}  // namespace tranche::e2e
