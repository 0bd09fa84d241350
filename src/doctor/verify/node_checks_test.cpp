#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "doctor/finding_fixture.h"
#include "doctor/verify/checks.h"

namespace tranche::doctor {
namespace node_checks_test {

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Field;
using Json = nlohmann::json;

Json good_node() {
  return Json::parse(R"({"metadata": {"labels": {
      "nvidia.com/gpu.count": "2", "nvidia.com/gpu.replicas": "2000", "nvidia.com/gpu.sharing-strategy": "mps",
      "nvidia.com/mps.capable": "true", "nvidia.com/device-plugin.config": "four"}},
    "status": {"capacity": {"cpu": "4", "nvidia.com/gpu": "0", "nvidia.com/gpu.shared": "4k"},
               "allocatable": {"nvidia.com/gpu": "0", "nvidia.com/gpu.shared": "4k"},
               "conditions": [{"type": "Ready", "status": "True"},
                              {"type": "TrancheReady", "status": "True", "reason": "Serving", "message": "all"}]}})");
}

Json good_pod() {
  return Json::parse(R"({"metadata": {"namespace": "gpu", "name": "agent"},
    "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
               "containerStatuses": [{"name": "node", "ready": true, "restartCount": 1}]}})");
}

Findings checked(const Json& node) {
  Findings checks;
  check_node(node, checks);
  return checks;
}

Findings checked_pod(const Json& pod, const std::string& doubt = "") {
  Findings checks;
  check_pod(pod, doubt, checks);
  return checks;
}

TEST(VerifyNode, APerfectNodePassesAndItsQuantitiesMayBeWrittenShort) {
  const auto checks = checked(good_node());
  EXPECT_THAT(checks, Each(Field(&Finding::verdict, Verdict::kPass)));
  EXPECT_THAT(checks, Contains(says(Verdict::kPass, "node.resources", "4000, all of them can be allocated")));
}

// Promise: verify: Each fault of a node that the API server shows is reported.
TEST(VerifyNode, EachFaultIsReported) {
  struct Case {
    const char* pointer;
    Json value;
    Verdict verdict;
    const char* id;
    const char* what;
  };
  const std::vector<Case> cases{
      {"/status/conditions/0/status", "False", Verdict::kFail, "node.ready", "kubelet is not ready"},
      {"/status/conditions/1/reason", "PoolDown", Verdict::kFail, "node.condition", "PoolDown"},
      {"/status/conditions/1/reason", "Waiting", Verdict::kSkip, "node.condition", "waits"},
      {"/status/conditions/1/type", "Other", Verdict::kSkip, "node.condition", "no condition"},
      {"/status/allocatable/nvidia.com~1gpu.shared", "3999", Verdict::kFail, "node.resources", "3999 of 4000"},
      {"/status/capacity/nvidia.com~1gpu", "2", Verdict::kFail, "node.resources", "0 of 2"},
      {"/metadata/labels/nvidia.com~1mps.capable", "false", Verdict::kFail, "node.labels", "true"},
      {"/metadata/labels", Json::object(), Verdict::kSkip, "node.labels", "no label"},
      {"/status/capacity", Json::object(), Verdict::kFail, "node.resources", "offers no GPU"},
  };
  for (const auto& [pointer, value, verdict, id, what] : cases) {
    Json node = good_node();
    node[Json::json_pointer(pointer)] = value;
    EXPECT_THAT(checked(node), Contains(says(verdict, id, what))) << pointer << value;
  }
}

TEST(VerifyNode, APodIsReadyOrSaysWhatItWaitsForAndOneInDoubtIsNotOurs) {
  EXPECT_THAT(checked_pod(good_pod()), ElementsAre(says(Verdict::kPass, "agent.pods", "1 restarts")));
  EXPECT_THAT(checked_pod(good_pod(), "so"), ElementsAre(says(Verdict::kFail, "agent.pods", "is not asked: so")));
  Json pod = good_pod();
  pod["status"]["conditions"][0]["status"] = "False";
  pod["status"]["containerStatuses"][0] = {
      {"name", "node"}, {"ready", false}, {"state", {{"waiting", {{"reason", "ImagePullBackOff"}}}}}};
  EXPECT_THAT(checked_pod(pod), ElementsAre(says(Verdict::kFail, "agent.pods", "node (ImagePullBackOff)")));
}

Findings against(const Json& node, const Json& agent) {
  Findings checks;
  check_node_against_agent(node, agent, checks);
  return checks;
}

TEST(VerifyNode, WhatTheAgentSaysIsWhatTheNodeHas) {
  Json agent = Json::parse(R"({"resources": [{"name": "nvidia.com/gpu.shared", "slots": 4000}],
    "config": {"name": "four", "chosenBy": "label"}, "labels": {"nvidia.com/gpu.count": "2"}})");
  EXPECT_THAT(against(good_node(), agent), Each(Field(&Finding::verdict, Verdict::kPass)));
  Json other = good_node();
  other["status"]["capacity"]["nvidia.com/gpu-mps"] = "3";
  EXPECT_THAT(against(other, agent), Contains(says(Verdict::kFail, "node.advertised", "has 3 that the agent")));
  agent["resources"][0]["slots"] = 8;
  agent["config"]["name"] = "two";
  agent["labels"]["nvidia.com/gpu.count"] = "1";
  const auto checks = against(good_node(), agent);
  EXPECT_THAT(checks, Contains(says(Verdict::kFail, "node.advertised", "has 4000, the agent advertises 8")));
  EXPECT_THAT(checks, Contains(says(Verdict::kFail, "node.configuration", "\"two\"")));
  EXPECT_THAT(checks, Contains(says(Verdict::kFail, "node.labels", "\"2\"")));
}

TEST(VerifyNode, AnythingForAnObjectIsNoGpu) {
  for (const char* text : {"null", "[1]", R"({"status": {"capacity": {"nvidia.com/gpu": 3}}})", R"({"metadata": 1})"})
    EXPECT_THAT(checked(Json::parse(text)), Contains(says(Verdict::kFail, "node.resources", "no GPU"))) << text;
}

}  // namespace node_checks_test
}  // namespace tranche::doctor
