#include "observe/why/why.h"

#include <gmock/gmock.h>

#include "base/text.h"

namespace tranche::why {
namespace why_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

constexpr const char* kStatus = R"json({
 "mps": {"connected": true, "needed": true, "problem": ""},
 "change": {"steps": [{"what": "shrinks", "resource": "nvidia.com/gpu", "devices": ["GPU-bbbbbbbb"], "state": "waiting",
                       "text": "nvidia.com/gpu on GPU 1: 4 to 2 slots (waits: team/b holds 2 slots)",
                     "waitsFor" : "team/b holds 2 slots"
}]
}
,
 "guard": {"state": "on", "limits": [{"grant": "ga", "device": "GPU-aaaaaaaa", "limitMiB": 8192}],
   "foreignProcesses": [{"device": "GPU-bbbbbbbb", "pid": 99, "name": "Xorg", "memoryMiB": 40}],
   "stopped": [{"device": "GPU-aaaaaaaa", "grant": "ga", "holder": "team/a/main", "pid": 8, "atMs": 990000}],
   "acts": [{"atMs": 940000, "what": "terminate", "outcome": "done", "holder": "team/a/main", "grant": "ga",
             "device": "GPU-aaaaaaaa", "pid": 7, "heldMiB": 9000, "limitMiB": 8192, "policy": "terminate-newest"},
            {"atMs": 400000, "what": "kill", "outcome": "done", "holder": "team/gone/main", "grant": "gg",
             "device": "GPU-aaaaaaaa", "pid": 6, "heldMiB": 1, "limitMiB": 1, "policy": "terminate-newest"}]},
 "faults": [{"atMs": 900000, "pool": "gpu-a", "kind": "fatal", "culprit": {"holder": "team/c/main"},
             "victims": [{"holder": "team/a/main"}, {"holder": ""}]}],
 "inForce": [{"promise": "memory of a container", "state": "yes", "by": "guard", "why": ""},
             {"promise": "nothing runs beside MPS", "state": "no", "by": "guard", "why": "the compute mode is left alone"}],
 "resources": [{"name": "nvidia.com/gpu", "registered": true}],
 "leftOut": [{"what": "GPU 12 (GPU-dddddddd)", "why": "it is a display GPU"}],
 "planProblems": ["c.yaml:3:1: warning: GPU 1 is named twice", "c.yaml:4:1: warning: GPU 11 is named twice"],
 "devices": [
  {"uuid": "GPU-aaaaaaaa", "index": "0", "name": "H100", "resource": "nvidia.com/gpu", "sharing": "mps", "healthy": true,
   "pool": "gpu-a", "poolState": "serving", "slotMemoryMiB": 4096, "slotSms": 26,
   "processes": [{"pid": 8, "memoryMiB": 1000, "grant": "ga"}, {"pid": 9, "memoryMiB": 500, "grant": "ga"}],
   "slots": [{"id": "GPU-aaaaaaaa::0", "resource": "nvidia.com/gpu", "holder": "team/a/main"},
             {"id": "GPU-aaaaaaaa::1", "resource": "nvidia.com/gpu", "holder": "team/a/main"},
             {"id": "GPU-aaaaaaaa::2", "resource": "nvidia.com/gpu"}]},
  {"uuid": "GPU-bbbbbbbb", "index": "1", "name": "H100", "resource": "nvidia.com/gpu", "sharing": "mps", "healthy": false,
   "reason": "XID 79 (the GPU has fallen off the bus): receives no new pods", "cause": "xid", "unhealthyMs": 240000,
   "pool": "gpu-b", "poolState": "starting",
   "slots": [{"id": "GPU-bbbbbbbb::0", "resource": "nvidia.com/gpu", "holder": "team/b/main"},
             {"id": "GPU-bbbbbbbb::1", "resource": "nvidia.com/gpu"}]},
  {"uuid": "MIG-cccccccc", "index": "2:0", "name": "H100", "resource": "nvidia.com/mig-1g", "sharing": "none", "healthy": true,
   "slots": [{"id": "MIG-cccccccc", "resource": "nvidia.com/mig-1g"}]}],
 "grants": [
  {"namespace": "team", "pod": "a", "container": "main", "resource": "nvidia.com/gpu", "grant": "ga",
   "protection": [{"pid": 8, "protected": "yes", "why": ""}, {"pid": 9, "protected": "starting", "why": "it opens more"},
                  {"pid": 10, "protected": "no", "why": "no more descriptors"}, {"protected": "no", "why": "no right"}],
   "slots": ["GPU-aaaaaaaa::0", "GPU-aaaaaaaa::1"],
   "devices": [{"uuid": "GPU-aaaaaaaa", "slots": 2, "memoryMiB": 8192, "threads": "20", "sms": 52}]},
  {"namespace": "team", "pod": "b", "container": "main", "resource": "nvidia.com/gpu", "grant": "gb",
   "slots": ["GPU-bbbbbbbb::0", "GPU-bbbbbbbb::3"], "deleting": true,
   "devices": [{"uuid": "GPU-bbbbbbbb", "slots": 2, "memoryMiB": 4096, "threads": "10", "sms": 13}]},
  {"namespace": "other", "pod": "a", "container": "main", "resource": "nvidia.com/gpu", "grant": "go",
   "slots": ["GPU-aaaaaaaa::7"], "devices": []}]
})json";

const WallTime kNow{std::chrono::seconds(1000)};

std::string text_of(std::string_view name) {
  const auto found = explain(kStatus, name, kNow);
  return found ? render(*found, false, 2000) : to_string(found.error());
}

struct Case {
  const char* name;
  std::vector<const char*> says;
  std::vector<const char*> not_says;
};

// Beside those of tests/golden/why.
const std::vector<Case> kCases{
    {"team/a",
     {"- the keeper holds 1 client of container main through its death",
      "- client 9 is not completely held yet (it opens more)",
      "! client 10 is not held (no more descriptors): its death can end its neighbours",
      "! a client is not held (no right)"},
     {"other/a", "memory of a container", "has not learned", "waits"}},
    {"a", {"pod team/a: holds", "pod other/a: holds nothing any more"}, {}},
    {"team/b/main", {"pod team/b/main: holds 2 slots"}, {}},
    {"GPU-bbbb", {"GPU 1 (GPU-bbbbbbbb): unhealthy"}, {"GPU 11"}},
    {"gpu-a", {"GPU 0 (GPU-aaaaaaaa)"}, {}},
    {"2", {"MIG device 2:0 (MIG-cccccccc): healthy, 1 slot free"}, {}},
    {"GPU-dddddddd", {"not offered"}, {}},
    {"GPU-aaaaaaaa::0", {"held by team/a/main"}, {}},
    {"GPU-bbbbbbbb::1", {"slot GPU-bbbbbbbb::1: unhealthy: no pod gets it", "a configuration change waits"}, {}},
    {"team/aa",
     {"reports no pod, claim, GPU or slot \"team/aa\". Did you mean team/a? GPUs: 0",
      "0, 1, 2:0. Pods: ", "kubectl describe"},
     {}},
    {"GPU-aaaaaaaa::9", {"Did you mean GPU-aaaaaaaa::"}, {}},
    {"1:", {"no pod, claim, GPU or slot"}, {}},
    {"", {"no pod, claim, GPU or slot"}, {}},
};

// Promise: why: A pod, a GPU or a slot is explained with causes and what to do.
TEST(Why, ExplainsByName) {
  for (const auto& row : kCases) {
    SCOPED_TRACE(row.name);
    const std::string text = text_of(row.name);
    for (const char* part : row.says) EXPECT_THAT(text, HasSubstr(part));
    for (const char* part : row.not_says) EXPECT_THAT(text, Not(HasSubstr(part)));
  }
}

TEST(Why, DoesNotTrustTheDocument) {
  EXPECT_EQ(explain("[]", "0", kNow).error().kind, Kind::kInvalid);
  EXPECT_EQ(explain("{}", "0", kNow).error().kind, Kind::kNotFound);
  EXPECT_EQ(
      explain(R"({"devices": 7, "grants": [3], "guard": {"acts": [null]}, "faults": {}})", "0", kNow).error().kind,
      Kind::kNotFound);
  const auto odd = explain(R"({"devices": [{"uuid": "GPU-1", "index": "0"}]})", "0", kNow);
  ASSERT_TRUE(odd);
  EXPECT_THAT(*odd, SizeIs(1));
}

TEST(Why, SeenFromOutsideItStillSaysTheUse) {
  const auto found = explain(R"({"devices": [{"uuid": "GPU-1", "index": "0", "healthy": true}],
    "grants": [{"namespace": "t", "pod": "p", "container": "m", "grant": "g",
                "devices": [{"uuid": "GPU-1", "slots": 1, "memoryMiB": 9, "usedMiB": 7}]}]})",
                             "p", kNow);
  ASSERT_TRUE(found);
  EXPECT_THAT((*found)[0].causes[0].what, HasSubstr("limits 9 MiB; uses 7 MiB"));
}

// Promise: why: No name of a pod in a report of causes controls the terminal.
TEST(Why, HostileNamesStayText) {
  const auto found = explain(R"({"grants": [{"namespace": "t", "pod": "\u001b[2J\n", "container": "m", "slots": ["x"],
    "devices": [{"uuid": "\u001b]0;x\u0007", "slots": 1}]}]})",
                             "t/\x1b[2J\n", kNow);
  ASSERT_TRUE(found);
  const std::string text = render(*found, false, 80);
  EXPECT_THAT(text, AllOf(Not(HasSubstr("\x1b")), Not(HasSubstr("\x07")), HasSubstr("\\x1b")));
  EXPECT_THAT(to_json(*found), Not(HasSubstr("\x1b")));
}

TEST(Why, FitsTheTerminal) {
  const auto found = explain(kStatus, "team/a", kNow);
  ASSERT_TRUE(found);
  const std::string text = render(*found, false, 60);
  for (const auto line : lines_of(text)) EXPECT_LE(line.size(), 60u) << line;
  EXPECT_THAT(render(*found, true, 80), HasSubstr("\x1b[31m"));
}

TEST(Why, AGpuThatFellOffTheBusNeedsAReboot) {
  const std::string reboot = "drain the node and reboot it; replace the GPU if the fault comes back";
  EXPECT_EQ(remedy_of("xid", "XID 79 (the GPU has fallen off the bus): receives no new pods"), reboot);
  EXPECT_EQ(remedy_of("lost", "the GPU does not respond"), reboot);
  EXPECT_EQ(remedy_of("xid", "XID 62 (x): receives no new pods"),
            "wait for the quiet period; replace the GPU if this repeats");
}

}  // namespace why_test
}  // namespace tranche::why
