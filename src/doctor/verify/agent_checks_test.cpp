#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "doctor/finding_fixture.h"
#include "doctor/verify/checks.h"

namespace tranche::doctor {
namespace agent_checks_test {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::Field;
using ::testing::Not;
using Json = nlohmann::json;

Json good_node() {
  return Json::parse(R"({
    "program": "node", "version": "1", "ready": true, "driver": {"state": "ready", "version": "580.1"},
    "config": {"path": "c.yaml", "inForce": "file", "chosenBy": "file", "hash": "abc", "problems": []},
    "mps": {"needed": true, "connected": true}, "planProblems": [],
    "resources": [{"name": "nvidia.com/gpu", "slots": 4, "healthy": 4, "registered": true, "allocated": 1}],
    "devices": [{"uuid": "GPU-1", "sharing": "mps", "pool": "gpu-1", "poolState": "serving", "memoryMiB": 1000,
                 "smCount": 132, "slotMemoryMiB": 250, "slotSms": 32, "slots": [{}, {}, {}, {}]}],
    "inForce": [{"promise": "memory of a container", "state": "yes", "by": "guard"}],
    "guard": {"foreignProcesses": []}, "kubelet": {"holdingsProblem": ""}, "cdiProblem": ""})");
}

Json good_mps() {
  return Json::parse(R"({"config": {"hash": "abc"}, "pools": [{"id": "gpu-1", "state": "serving",
                         "clients": {"live": 2}, "proof": {"state": "proven"}}]})");
}

Findings checked(const Json& node, const Json& mps) {
  Findings checks;
  check_agent(node, mps, checks);
  return checks;
}

// Promise: verify: A perfect node passes every check.
TEST(VerifyAgent, APerfectNodePassesEverything) {
  const auto checks = checked(good_node(), good_mps());
  EXPECT_THAT(checks, Each(Field(&Finding::verdict, Verdict::kPass)));
  EXPECT_THAT(checks, Contains(says(Verdict::kPass, "agent.memory", "250 MiB and 32 of 132 SMs, 4 slots")));
  EXPECT_EQ(exit_status(checks), 0);
}

// Promise: verify: Each broken promise is its own failure with a remedy.
TEST(VerifyAgent, EachBrokenPromiseIsItsOwnFailureWithARemedy) {
  struct Case {
    const char* pointer;
    Json value;
    const char* id;
    const char* what;
  };
  const std::vector<Case> cases{
      {"/ready", false, "agent.ready", "not ready"},
      {"/driver/state", "waiting", "agent.driver", "does not answer"},
      {"/config/inForce", "last good", "agent.configuration", "refused"},
      {"/config/hash", "other", "agent.same-configuration", "tranche mps has abc"},
      {"/planProblems", Json::array({"too many"}), "agent.configuration", "too many"},
      {"/resources/0/registered", false, "agent.resources", "not registered"},
      {"/resources/0/healthy", 3, "agent.resources", "3 of 4"},
      {"/resources", Json::array(), "agent.resources", "nothing is advertised"},
      {"/devices/0/slotMemoryMiB", 251, "agent.memory", "more than the 1000 MiB"},
      {"/mps/connected", false, "agent.daemon", "does not answer"},
      {"/inForce/0/state", "no", "agent.enforced", "not kept"},
      {"/guard/foreignProcesses", Json::array({{{"device", "GPU-1"}, {"pid", 7}, {"name", "x"}}}),
       "agent.foreign-processes", "process 7"},
      {"/kubelet/holdingsProblem", "gone", "agent.pod-resources", "gone"},
      {"/cdiProblem", "no folder", "agent.cdi", "no folder"},
  };
  for (const auto& [pointer, value, id, what] : cases) {
    Json node = good_node();
    node[Json::json_pointer(pointer)] = value;
    const auto checks = checked(node, good_mps());
    EXPECT_THAT(checks, Contains(AllOf(says(Verdict::kFail, id, what), Field(&Finding::remedy, Not(""))))) << pointer;
    EXPECT_EQ(exit_status(checks), 1) << pointer;
  }
}

TEST(VerifyAgent, APoolThatDoesNotServeFailsAndOneThatIsNotProvenIsSkipped) {
  Json mps = good_mps();
  mps["pools"][0]["proof"]["state"] = "off";
  EXPECT_THAT(checked(good_node(), mps), Contains(says(Verdict::kSkip, "agent.daemon", "(off)")));
  mps["pools"][0]["state"] = "wedged";
  EXPECT_THAT(checked(good_node(), mps), Contains(says(Verdict::kFail, "agent.daemon", "wedged")));
}

TEST(VerifyAgent, WithoutTheOtherProgramsWordThePoolStateOfTheAgentCounts) {
  EXPECT_THAT(checked(good_node(), Json()), Contains(says(Verdict::kPass, "agent.daemon", "serves")));
  Json node = good_node();
  node["devices"][0]["poolState"] = "given-up";
  EXPECT_THAT(checked(node, Json()), Contains(says(Verdict::kFail, "agent.daemon", "given-up")));
}

TEST(VerifyAgent, WhateverTheDocumentIsNothingPassesThatWasNotSaid) {
  for (const char* text : {"null", "[]", "{}", "7", R"({"resources": 3, "devices": {}, "config": [], "mps": "x"})"}) {
    const auto checks = checked(Json::parse(text), Json());
    EXPECT_THAT(checks, Contains(says(Verdict::kFail, "agent.ready", ""))) << text;
    EXPECT_EQ(exit_status(checks), 1) << text;
  }
}

TEST(VerifyHardware, AGpuThatIsNotServedOrOtherThanSaidFails) {
  gpu::Inventory hardware;
  gpu::Gpu gpu;
  gpu.uuid = "GPU-1";
  gpu.memory = mib(1000);
  gpu.sm_count = 132;
  gpu.compute_mode = gpu::ComputeMode::kExclusiveProcess;
  hardware.gpus = {gpu};
  Findings good;
  check_hardware(hardware, good_node(), good);
  EXPECT_THAT(good, Each(Field(&Finding::verdict, Verdict::kPass)));
  hardware.gpus[0].memory = mib(900);
  hardware.gpus[0].compute_mode = gpu::ComputeMode::kProhibited;
  gpu.uuid = "GPU-2";
  hardware.gpus.push_back(gpu);
  Findings bad;
  check_hardware(hardware, good_node(), bad);
  EXPECT_THAT(bad, Contains(says(Verdict::kFail, "hardware.gpu", "900 MiB")));
  EXPECT_THAT(bad, Contains(says(Verdict::kFail, "hardware.compute-mode", "PROHIBITED")));
  EXPECT_THAT(bad, Contains(says(Verdict::kFail, "hardware.gpu", "does not serve it")));
}

}  // namespace agent_checks_test
}  // namespace tranche::doctor
