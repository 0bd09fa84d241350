#include "observe/view/view.h"

#include <gmock/gmock.h>

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

TEST(View, ShowsWhoHoldsWhatAndWhatWaits) {
  const auto view = make_view(kStatus, kKubelet);
  ASSERT_TRUE(view) << to_string(view.error());
  ASSERT_EQ(view->devices.size(), 1u);
  EXPECT_THAT(view->devices[0].slots, testing::ElementsAre(0, 0, 1, -1));
  EXPECT_EQ(view->devices[0].tenants[0].used_mib, 512u);
  EXPECT_EQ(view->devices[0].tenants[1].used_mib, std::nullopt);
  ASSERT_EQ(view->waiting.size(), 1u);
  EXPECT_EQ(view->waiting[0].why, "asks 2 nvidia.com/gpu, 1 free");
  const std::string text = render(*view, {});
  EXPECT_THAT(text, HasSubstr("[aab·] 3/4 slots"));
  EXPECT_THAT(text, HasSubstr("   512 of   2048 MiB   66 SMs"));
  EXPECT_THAT(text, HasSubstr("default/c"));
  EXPECT_THAT(text, HasSubstr("tranche  node n1  driver 580.159.04"));
  EXPECT_THAT(text, HasSubstr("memory 1024 of 4096 MiB used   132 SMs, 47 % active"));
  EXPECT_THAT(text, Not(HasSubstr("\033")));
  EXPECT_THAT(render(*view, {.colour = true}), HasSubstr("\033"));
}

TEST(View, ShowsUseAlsoWhereNoProcessIsNamed) {
  const auto view = make_view(R"({"devices": [{"uuid": "GPU-1", "resource": "r", "slots": [{}]}],
    "grants": [{"namespace": "n", "pod": "a", "container": "main", "resource": "r",
                "devices": [{"uuid": "GPU-1", "slots": 1, "usedMiB": 7}]}]})",
                              "");
  ASSERT_TRUE(view);
  EXPECT_EQ(view->devices[0].tenants[0].used_mib, 7u);
}

// Promise: status: The status shows what is enforced and what is not.
TEST(View, ShowsWhatIsEnforcedAndWhatIsNot) {
  const auto view = make_view(
      R"({"inForce": [{"promise": "memory of a container", "state": "yes", "by": "guard, every 100 ms", "why": ""},
                      {"promise": "a client's death hurts no neighbour", "state": "partly", "by": "keeper",
                       "why": "measured on H100 and H200"},
                      {"promise": "nothing runs beside MPS", "state": "no", "by": "", "why": "left alone"}, 7]})",
      "");
  ASSERT_TRUE(view);
  EXPECT_THAT(render(*view, {}),
              HasSubstr("Enforced\n"
                        "   yes    memory of a container                guard, every 100 ms\n"
                        "   partly a client's death hurts no neighbour  keeper; measured on H100 and H200\n"
                        "   no     nothing runs beside MPS              left alone\n"));
  const std::string coloured = render(*view, {.colour = true});
  for (const char* state : {"\033[32myes   ", "\033[33mpartly", "\033[31mno    "})
    EXPECT_THAT(coloured, HasSubstr(state));
  const auto folded = render(*view, {.folded = true});
  EXPECT_THAT(
      folded,
      HasSubstr("Enforced  1 of 3; a client's death hurts no neighbour: partly; nothing runs beside MPS: no\n"));
  EXPECT_THAT(folded, Not(HasSubstr("left alone")));
}

TEST(View, SaysNothingOfPromisesWhereNothingIsSharedByMps) {
  EXPECT_THAT(render(*make_view(kStatus, kKubelet), {}), Not(HasSubstr("Enforced")));
}

TEST(View, ShowsWhatIsWrongWithCdiSpecs) {
  const auto view = make_view(R"({"cdiProblem": "/dev/nvidia-uvm is not on the node"})", "");
  ASSERT_TRUE(view);
  EXPECT_THAT(view->problems, testing::ElementsAre("CDI specs: /dev/nvidia-uvm is not on the node"));
  EXPECT_THAT(make_view(R"({"cdiProblem": ""})", "")->problems, testing::IsEmpty());
}

TEST(View, ShowsAControlGroupThatIsTooLight) {
  const auto view = make_view(R"({"loop": {"worstLatenessMs": 9, "cpuProblem": "a"}, "mps": {"cpuProblem": "b"}})", "");
  ASSERT_TRUE(view);
  EXPECT_THAT(view->problems, testing::ElementsAre("tranche node: a", "tranche mps: b"));
}

TEST(View, ATenantsProcessesAreThoseBehindItsEndpoint) {
  const auto view = make_view(
      R"({"devices": [{"uuid": "GPU-1", "resource": "r", "processes": [{"pid": 7, "memoryMiB": 5, "grant": "ab"},
                       {"pid": 8, "memoryMiB": 6, "grant": "ab"}, {"pid": 9, "memoryMiB": 7}]}],
          "grants": [{"namespace": "n", "pod": "p", "container": "c", "resource": "r", "grant": "ab",
                      "devices": [{"uuid": "GPU-1", "slots": 1}]}]})",
      "");
  ASSERT_TRUE(view);
  EXPECT_EQ(view->devices[0].tenants[0].used_mib, 11u);
}

TEST(View, FoldsManySlotsIntoAReadableBar) {
  View view;
  Device device;
  device.slots.assign(1000, -1);
  view.devices.push_back(device);
  EXPECT_LT(render(view, {}).size(), 1000u);
}

TEST(View, IsFoldedForALowTerminalWithWhatWaitsFirst) {
  const auto text = render(*make_view(kStatus, kKubelet), {.folded = true});
  EXPECT_LT(text.find("default/c"), text.find("GPU 0"));
  EXPECT_LT(text.find("Failed: exit 2"), text.find("GPU 0"));
  EXPECT_THAT(
      text, HasSubstr("GPU 0 [aab·] 3/4 slots  1024 of 4096 MiB  healthy, MPS serving\n   a default/a, b default/b\n"));
  EXPECT_THAT(text, Not(AnyOf(HasSubstr("a note"), HasSubstr("GPU-1"))));
}

TEST(View, ADriverThatIsNotThereIsSaidFirst) {
  const auto view = make_view(R"({"driver": {"state": "waiting", "reason": "not loaded"}})", "");
  ASSERT_TRUE(view);
  EXPECT_THAT(render(*view, {}), HasSubstr("no driver: not loaded"));
}

TEST(View, SaysThatTheAgentIsOfAnotherVersion) {
  EXPECT_THAT(render(*make_view(R"({"version": "9.9", "future": {}})", ""), {}),
              HasSubstr("note: the node agent is version 9.9 and this program "));
}

TEST(View, RefusesWhatIsNoStatus) {
  EXPECT_FALSE(make_view("[]", ""));
  EXPECT_FALSE(make_view("", ""));
  EXPECT_EQ(make_view(R"({"error": "busy"})", "").error().what, "busy");
}

TEST(View, FieldsOfAnotherTypeAreAbsent) {
  EXPECT_TRUE(
      make_view(R"({"devices": [{"memoryMiB": "x", "slots": [1, null]}, 3], "grants": {}, "driver": []})", "{"));
}

}  // namespace
}  // namespace tranche::view
