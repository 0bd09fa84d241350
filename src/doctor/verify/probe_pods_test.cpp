#include "doctor/verify/checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "doctor/finding.h"

namespace tranche::doctor {
namespace probe_pods_test {

using Json = nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Json status(const char* first, const char* second) {
  const std::string text = R"({"guard": {"memory": {"nvidia.com/gpu": "observe"}}, "devices": [
    {"uuid": "GPU-a", "resource": "nvidia.com/gpu", "sharing": "mps", "slotSms": 12, "slots": )" +
                           std::string(first) + R"(},
    {"uuid": "GPU-b", "resource": "nvidia.com/gpu", "sharing": "mps", "slotSms": 14, "slots": )" +
                           std::string(second) + R"(},
    {"uuid": "GPU-c", "resource": "nvidia.com/gpu.whole", "sharing": "exclusive"}]})";
  return Json::parse(text);
}
constexpr const char* kTwoFree = R"([{"id": "1"}, {"id": "2"}])";
constexpr const char* kOneFree = R"([{"id": "1", "holder": "a/b/c"}, {"id": "2"}])";
constexpr const char* kNoneFree = R"([{"id": "1", "holder": "a/b/c"}])";

const Json kAgent = Json::parse(R"({"metadata": {"name": "tranche-node-x", "namespace": "gpu"}, "spec": {
  "runtimeClassName": "nvidia", "imagePullSecrets": [{"name": "pull"}],
  "containers": [{"name": "node", "image": "registry.example/tranche:v1", "imagePullPolicy": "Always"}]}})");

TEST(ProbePods, AreOneForEachGpuWithANeighbourWhereSlotsAreFree) {
  const auto plan = plan_probe_pods(status(kTwoFree, kTwoFree));
  ASSERT_EQ(plan.pods.size(), 4u);
  EXPECT_EQ(plan.pods[0].resource, "nvidia.com/gpu");
  EXPECT_EQ(plan.pods[0].sms, "GPU-a=12,GPU-b=14");
  EXPECT_TRUE(plan.pods[0].observed);
  EXPECT_TRUE(plan.pods[0].neighbour && plan.pods[1].neighbour) << "they compute by the time of the trials";
  EXPECT_FALSE(plan.pods[2].neighbour || plan.pods[3].neighbour);
  EXPECT_THAT(plan.gpus, ElementsAre("GPU-a", "GPU-b"));
  ASSERT_EQ(plan.checks.size(), 1u) << "the GPU that is not shared";
  EXPECT_EQ(plan.checks[0].about, "GPU-c");
}

TEST(ProbePods, TakeNothingThatAPodHolds) {
  const auto tight = plan_probe_pods(status(kTwoFree, kOneFree));
  ASSERT_EQ(tight.pods.size(), 2u);
  EXPECT_FALSE(tight.pods[0].neighbour) << "three slots are no two neighbours";
  const auto full = plan_probe_pods(status(kNoneFree, kNoneFree));
  EXPECT_THAT(full.pods, IsEmpty());
  EXPECT_THAT(full.gpus, IsEmpty());
  EXPECT_EQ(full.checks.size(), 3u);
  EXPECT_EQ(exit_status(full.checks), 2) << "nothing could be checked";
}

// Promise: verify: Probe pods have the agent's image and no rights.
TEST(ProbePods, HaveTheAgentsImageAndNoRights) {
  for (const bool neighbour : {false, true}) {
    const ProbePod pod{"nvidia.com/gpu", "GPU-a=12", true, neighbour};
    const auto made = make_probe_pod(kAgent, pod, {"n1", "probe-0", "word", Json()});
    ASSERT_TRUE(made);
    EXPECT_EQ((*made)["metadata"]["namespace"], "gpu");
    EXPECT_EQ((*made)["metadata"]["labels"][kRunLabel], "word");
    const Json& spec = (*made)["spec"];
    EXPECT_EQ(spec["nodeName"], "n1");
    EXPECT_EQ(spec["runtimeClassName"], "nvidia");
    EXPECT_EQ(spec["imagePullSecrets"][0]["name"], "pull");
    EXPECT_EQ(spec["automountServiceAccountToken"], false);
    EXPECT_EQ(spec["tolerations"], Json::parse(R"([{"operator": "Exists"}])"));
    ASSERT_EQ(spec["containers"].size(), 1u);
    const Json& container = spec["containers"][0];
    EXPECT_EQ(container["image"], "registry.example/tranche:v1");
    EXPECT_EQ(container["imagePullPolicy"], "Always");
    EXPECT_EQ(container["resources"]["limits"]["nvidia.com/gpu"], "1");
    EXPECT_EQ(container["securityContext"]["capabilities"]["drop"], Json::array({"ALL"}));
    EXPECT_EQ(container["securityContext"]["allowPrivilegeEscalation"], false);
    EXPECT_EQ(container["securityContext"].contains("runAsUser"), neighbour);
    EXPECT_EQ(container["command"],
              neighbour ? Json::array({"tranche", "probe", "--json", "--seconds", "30"})
                        : Json::array({"tranche", "verify", "--inside", "--json", "--sms", "GPU-a=12", "--observed"}));
  }
  const Json empty = Json::object();
  EXPECT_FALSE(make_probe_pod(empty, {}, {"n1", "probe-0", "word", Json()}));
}

TEST(ProbePods, TakeOverridesAlsoOverTheirContainer) {
  const Json overrides = Json::parse(R"({"spec": {"runtimeClassName": null, "volumes": [{"name": "v"}],
    "containers": [{"name": "x", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]}})");
  const auto made = make_probe_pod(kAgent, {"nvidia.com/gpu", "", false, true}, {"n1", "p", "w", overrides});
  ASSERT_TRUE(made);
  const Json& spec = (*made)["spec"];
  EXPECT_FALSE(spec.contains("runtimeClassName"));
  EXPECT_EQ(spec["volumes"][0]["name"], "v");
  ASSERT_EQ(spec["containers"].size(), 1u);
  EXPECT_EQ(spec["containers"][0]["name"], kProbeContainer);
  EXPECT_EQ(spec["containers"][0]["image"], "registry.example/tranche:v1");
  EXPECT_EQ(spec["containers"][0]["volumeMounts"][0]["mountPath"], "/v");
}

TEST(ProbePods, AreSeenToEndToBeRefusedAndToBeStuck) {
  const ProbeRun kNone{.not_started = "no run"};
  EXPECT_FALSE(run_of_pod(Json::parse(R"({"status": {"phase": "Pending"}})")));
  EXPECT_EQ(run_of_pod(Json::parse(R"({"status": {"phase": "Succeeded"}})")).value_or(kNone).not_started, "");
  const auto failed = run_of_pod(Json::parse(R"({"status": {"phase": "Failed",
    "containerStatuses": [{"name": "probe", "state": {"terminated": {"exitCode": 3}}}]}})"))
                          .value_or(kNone);
  EXPECT_EQ(failed.not_started, "") << "a trial that found faults has reported them";
  EXPECT_EQ(failed.status, 3);
  const auto refused =
      run_of_pod(Json::parse(R"({"status": {"phase": "Failed", "reason": "OutOfnvidia.com/gpu", "message": "no"}})"));
  EXPECT_EQ(refused.value_or(kNone).not_started, "OutOfnvidia.com/gpu: no");
  const auto stuck = run_of_pod(Json::parse(R"({"status": {"phase": "Pending",
    "containerStatuses": [{"name": "probe", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "x"}}}]}})"));
  EXPECT_EQ(stuck.value_or(kNone).not_started, "ImagePullBackOff: x");
}

TEST(ProbePods, LogsAreTheReportsThatWerePrinted) {
  Findings checks;
  checks.pass("deep.sms", "GPU-a", "12 SMs");
  checks.fail("deep.answers", "GPU-a", "wrong", "do");
  const auto read = checks_of_log("a warning\n" + doctor::to_json({"this container", checks}) + "and more\n");
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, checks);
  const auto none = checks_of_log("{\"checks\": []}\nmore\ntranche verify: CUDA does not start here\x1b[2J\n");
  ASSERT_FALSE(none);
  EXPECT_THAT(to_string(none.error()), HasSubstr("CUDA does not start here [2J")) << "nothing that a terminal obeys";
  EXPECT_FALSE(checks_of_log("{}"));
  EXPECT_FALSE(checks_of_log("}{"));
  EXPECT_FALSE(checks_of_log(""));
}

TEST(ProbePods, NeighboursSpeakForTheGpuThatTheyWereOn) {
  const std::string log =
      R"({"device":{"uuid":"GPU-a"},"answers":{"checked":10,"wrong":0},"throughput":{"launches":7}})";
  Findings checks;
  judge_neighbours({{.output = "nothing"}, {.output = log}}, {"GPU-a", "GPU-b"}, checks);
  ASSERT_EQ(checks.size(), 4u);
  EXPECT_EQ(checks[0],
            (Finding{Verdict::kPass, "deep.other-user", "GPU-a", "a process of user 65534 computed beside root's"}));
  EXPECT_EQ(checks[1].id, "deep.neighbour");
  EXPECT_EQ(checks[1].verdict, Verdict::kPass);
  for (const auto at : {2, 3}) {
    EXPECT_EQ(checks[at].about, "GPU-b");
    EXPECT_EQ(checks[at].verdict, Verdict::kSkip);
  }
  checks.clear();
  judge_neighbours({{.status = 1, .output = log}}, {"GPU-a"}, checks);
  EXPECT_EQ(exit_status(checks), 1);
  checks.clear();
  judge_neighbours({{log, 0}}, {}, checks);
  EXPECT_THAT(checks, IsEmpty());
}

}  // namespace probe_pods_test
}  // namespace tranche::doctor
