#include "observe/view/view.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace tranche::view {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kStatus = R"({
  "node": "n1", "driver": {"state": "ready", "version": "580.159.04"},
  "config": {"path": "c.yaml", "inForce": "file", "problems": ["c.yaml:1:1: warning: x"]},
  "mps": {"connected": true, "needed": true},
  "resources": [{"name": "nvidia.com/gpu", "slots": 4, "healthy": 4, "allocated": 3, "registered": true}],
  "devices": [{"uuid": "GPU-1", "index": "0", "name": "NVIDIA H200", "resource": "nvidia.com/gpu", "memoryMiB": 4096,
               "memoryUsedMiB": 1024, "smCount": 132, "smActive": 47, "healthy": true, "poolState": "serving",
               "processes": [{"pid": 7, "memoryMiB": 512, "grant": "ga"}],
               "slots": [{"id": "GPU-1::0", "holder": "default/a/main"}, {"id": "GPU-1::1", "holder": "default/a/main"},
                         {"id": "GPU-1::2", "holder": "default/b/main"}, {"id": "GPU-1::3"}]}],
  "grants": [{"namespace": "default", "pod": "a", "container": "main", "resource": "nvidia.com/gpu", "grant": "ga",
              "devices": [{"uuid": "GPU-1", "slots": 2, "memoryMiB": 2048, "sms": 66}]},
             {"namespace": "default", "pod": "b", "container": "main", "resource": "nvidia.com/gpu",
              "devices": [{"uuid": "GPU-1", "slots": 1, "memoryMiB": 1024, "sms": 32}]}],
  "notes": ["a note"]})";
constexpr const char* kKubelet = R"({"pods": [
  {"namespace": "default", "name": "a", "phase": "Running"},
  {"namespace": "default", "name": "c", "phase": "Pending", "reason": "asks 2 nvidia.com/gpu, 1 free"},
  {"namespace": "default", "name": "d", "phase": "Failed", "reason": "exit 2"}]})";

Device device_of(const char* status) {
  return read_devices(nlohmann::json::parse(status)).planned.at(0);
}

TEST(View, ShowsWhoHoldsWhatAndWhatWaits) {
  const Device device = device_of(kStatus);
  EXPECT_THAT(device.slots, testing::ElementsAre(0, 0, 1, -1));
  EXPECT_EQ(device.tenants[0].used_mib, 512u);
  EXPECT_EQ(device.tenants[1].used_mib, std::nullopt);
  const std::string text = *render(kStatus, kKubelet, {});
  EXPECT_THAT(text, HasSubstr("[aab·] 3/4 slots"));
  EXPECT_THAT(text, HasSubstr("   512 of   2048 MiB   66 SMs"));
  EXPECT_THAT(text, HasSubstr("Waiting\n   default/c                asks 2 nvidia.com/gpu, 1 free\n"));
  EXPECT_THAT(text, HasSubstr("tranche  node n1  driver 580.159.04"));
  EXPECT_THAT(text, HasSubstr("memory 1024 of 4096 MiB used   132 SMs, 47 % active"));
  EXPECT_THAT(text, Not(HasSubstr("\033")));
  EXPECT_THAT(*render(kStatus, kKubelet, {.colour = true}), HasSubstr("\033"));
}

TEST(View, ShowsUseAlsoWhereNoProcessIsNamed) {
  EXPECT_EQ(device_of(R"({"devices": [{"uuid": "GPU-1", "resource": "r", "slots": [{}]}],
    "grants": [{"namespace": "n", "pod": "a", "container": "main", "resource": "r",
                "devices": [{"uuid": "GPU-1", "slots": 1, "usedMiB": 7}]}]})")
                .tenants[0]
                .used_mib,
            7u);
}

// Promise: status: The status shows what is enforced and what is not.
TEST(View, ShowsWhatIsEnforcedAndWhatIsNot) {
  constexpr const char* kInForce =
      R"({"inForce": [{"promise": "memory of a container", "state": "yes", "by": "guard, every 100 ms", "why": ""},
                      {"promise": "a client's death hurts no neighbour", "state": "partly", "by": "keeper",
                       "why": "measured on H100 and H200"},
                      {"promise": "nothing runs beside MPS", "state": "no", "by": "", "why": "left alone"}, 7]})";
  EXPECT_THAT(*render(kInForce, "", {}),
              HasSubstr("Enforced\n"
                        "   yes    memory of a container                guard, every 100 ms\n"
                        "   partly a client's death hurts no neighbour  keeper; measured on H100 and H200\n"
                        "   no     nothing runs beside MPS              left alone\n"));
  const std::string coloured = *render(kInForce, "", {.colour = true});
  for (const char* state : {"\033[32myes   ", "\033[33mpartly", "\033[31mno    "})
    EXPECT_THAT(coloured, HasSubstr(state));
  const auto folded = *render(kInForce, "", {.folded = true});
  EXPECT_THAT(
      folded,
      HasSubstr("Enforced  1 of 3; a client's death hurts no neighbour: partly; nothing runs beside MPS: no\n"));
  EXPECT_THAT(folded, Not(HasSubstr("left alone")));
}

TEST(View, SaysNothingOfPromisesWhereNothingIsSharedByMps) {
  EXPECT_THAT(*render(kStatus, kKubelet, {}), Not(HasSubstr("Enforced")));
}

TEST(View, ShowsWhatIsWrongWithCdiSpecs) {
  EXPECT_THAT(*render(R"({"cdiProblem": "/dev/nvidia-uvm is not on the node"})", "", {}),
              HasSubstr("\n! CDI specs: /dev/nvidia-uvm is not on the node\n"));
  EXPECT_THAT(*render(R"({"cdiProblem": ""})", "", {}), Not(HasSubstr("! ")));
}

TEST(View, ShowsAControlGroupThatIsTooLight) {
  EXPECT_THAT(*render(R"({"loop": {"worstLatenessMs": 9, "cpuProblem": "a"}, "mps": {"cpuProblem": "b"}})", "", {}),
              HasSubstr("\n! tranche node: a\n! tranche mps: b\n"));
}

TEST(View, ATenantsProcessesAreThoseBehindItsEndpoint) {
  EXPECT_EQ(device_of(R"({"devices": [{"uuid": "GPU-1", "resource": "r", "processes": [
                       {"pid": 7, "memoryMiB": 5, "grant": "ab"}, {"pid": 8, "memoryMiB": 6, "grant": "ab"},
                       {"pid": 9, "memoryMiB": 7}]}],
          "grants": [{"namespace": "n", "pod": "p", "container": "c", "resource": "r", "grant": "ab",
                      "devices": [{"uuid": "GPU-1", "slots": 1}]}]})")
                .tenants[0]
                .used_mib,
            11u);
}

TEST(View, FoldsManySlotsIntoAReadableBar) {
  nlohmann::json status;
  status["devices"][0]["slots"] = std::vector(1000, nlohmann::json::object());
  EXPECT_LT(render(status.dump(), "", {})->size(), 1000u);
}

TEST(View, IsFoldedForALowTerminalWithWhatWaitsFirst) {
  const auto text = *render(kStatus, kKubelet, {.folded = true});
  EXPECT_LT(text.find("default/c"), text.find("GPU 0"));
  EXPECT_LT(text.find("Failed: exit 2"), text.find("GPU 0"));
  EXPECT_THAT(
      text, HasSubstr("GPU 0 [aab·] 3/4 slots  1024 of 4096 MiB  healthy, MPS serving\n   a default/a, b default/b\n"));
  EXPECT_THAT(text, Not(AnyOf(HasSubstr("a note"), HasSubstr("GPU-1"))));
}

TEST(View, ADriverThatIsNotThereIsSaidFirst) {
  EXPECT_THAT(*render(R"({"driver": {"state": "waiting", "reason": "not loaded"}})", "", {}),
              HasSubstr("no driver: not loaded"));
}

TEST(View, SaysThatTheAgentIsOfAnotherVersion) {
  EXPECT_THAT(*render(R"({"version": "9.9", "future": {}})", "", {}),
              HasSubstr("note: the node agent is version 9.9 and this program "));
}

TEST(View, RefusesWhatIsNoStatus) {
  EXPECT_FALSE(render("[]", "", {}));
  EXPECT_FALSE(render("", "", {}));
  EXPECT_EQ(render(R"({"error": "busy"})", "", {}).error().what, "busy");
}

TEST(View, FieldsOfAnotherTypeAreAbsent) {
  EXPECT_TRUE(
      render(R"({"devices": [{"memoryMiB": "x", "slots": [1, null]}, 3], "grants": {}, "driver": []})", "{", {}));
}

}  // namespace
}  // namespace tranche::view
