#include <gmock/gmock.h>

#include "config/parse/parse_fixture.h"

// The rows on sharing.timeSlicing and sharing.mps of NVIDIA's behaviour, and the extensions.
namespace tranche::config {
namespace parse_sharing_test {

using namespace fixture;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Sharing sharing_in(const std::string& text) {
  return accepted(text).sharing;
}
std::string mps(const std::string& inside) {
  return "sharing: {mps: {" + inside + "}}";
}
std::string slicing(const std::string& inside) {
  return "sharing: {timeSlicing: {" + inside + "}}";
}
std::string entry(const std::string& fields) {
  return mps("resources: [{" + fields + "}]");
}
const std::string kResources = "resources: [{name: nvidia.com/gpu, replicas: 4}]";

TEST(SharingTest, RequestsForMoreThanOneFailByDefaultUnderMpsOnly) {
  EXPECT_TRUE(sharing_in(mps(kResources)).fail_requests_greater_than_one);
  EXPECT_TRUE(sharing_in(mps(kResources + ", failRequestsGreaterThanOne: null")).fail_requests_greater_than_one);
  EXPECT_FALSE(sharing_in(mps(kResources + ", failRequestsGreaterThanOne: false")).fail_requests_greater_than_one);
  EXPECT_FALSE(sharing_in(slicing(kResources)).fail_requests_greater_than_one);
  EXPECT_TRUE(sharing_in(slicing(kResources + ", failRequestsGreaterThanOne: true")).fail_requests_greater_than_one);
}

TEST(SharingTest, NullMpsIsAbsentAndNullTimeSlicingTooWithAWarning) {
  EXPECT_THAT(said("sharing: {mps: null, timeSlicing: {" + kResources + "}}"), IsEmpty());
  EXPECT_THAT(said("sharing:\n  timeSlicing:\n"),
              ElementsAre(HasSubstr("c:2:3: error: sharing.timeSlicing: has nothing below it")));
  EXPECT_THAT(said("sharing: {timeSlicing: 5}"),
              ElementsAre(HasSubstr("sharing.timeSlicing: must be a mapping, but is the number 5")));
}

TEST(SharingTest, ReplicasAreAWholeNumberFromTwo) {
  for (const char* good : {"2", "4.0", "1e1", "010", "0x10", "48"})
    EXPECT_FALSE(refused(entry(std::string("name: gpu, replicas: ") + good))) << good;
  EXPECT_FALSE(refused(entry("name: gpu, replicas: 1"))) << "one slot of MPS is the whole GPU";
  EXPECT_EQ(sharing_in(entry("name: gpu, replicas: 010")).resources[0].replicas, 8u);
}

// Promise: config: More slots than an MPS server has clients are an error that needs no GPU to find.
TEST(SharingTest, SlotsAreAtMostTheClientsOfAnyMpsServer) {
  EXPECT_THAT(
      said(entry("name: gpu, replicas: 100")),
      ElementsAre(AllOf(HasSubstr("c:1:51: error: sharing.mps.resources[0].replicas: is 100, and one MPS server "
                                  "has clients for at most 60 slots; write 48 or less, or"),
                        HasSubstr("failRequestsGreaterThanOne: false"))));
  const std::string hundred = "resources: [{name: gpu, replicas: 100}]";
  EXPECT_THAT(said(mps("processesPerSlot: 2, maxClients: 40, resources: [{name: gpu, replicas: 21}]")),
              ElementsAre(HasSubstr("for at most 20 slots; write 20 or less")));
  for (const char* more : {"failRequestsGreaterThanOne: false", "maxClients: 100"})
    EXPECT_FALSE(refused(mps(more + (", " + hundred)))) << more;
  EXPECT_FALSE(refused(slicing(hundred)));
  EXPECT_FALSE(refused(entry("name: gpu, replicas: 60"))) << "with CUDA 13.1; tranche plan knows the driver";
}

TEST(SharingTest, TheLongestNameMayBeRenamedAndKubeletStillTakesIt) {
  const std::string longest(52, 'g');  // with nvidia.com/ the 63 that are allowed
  const Sharing sharing = sharing_in(mps("renameByDefault: true, resources: [{name: " + longest + ", replicas: 2}]"));
  ASSERT_EQ(sharing.resources.size(), 1u);
  EXPECT_EQ(sharing.resources[0].rename, "nvidia.com/" + longest + ".shared");
  EXPECT_LE(longest.size() + std::string(".shared").size(), 63u) << "kubelet counts what stands after the slash";
}

TEST(SharingTest, RenameIsByDefaultOrNotAtAll) {
  EXPECT_EQ(sharing_in(mps(kResources)).resources[0].rename, std::nullopt);
  EXPECT_EQ(sharing_in(mps(kResources + ", renameByDefault: true")).resources[0].rename, "nvidia.com/gpu.shared");
  EXPECT_THAT(said(entry("name: gpu, replicas: 2, rename: slice")),
              ElementsAre(HasSubstr("warning: sharing.mps.resources[0].rename: has no effect without "
                                    "sharing.perDevice: true: the resource is advertised as nvidia.com/gpu")));
  EXPECT_EQ(sharing_in(entry("name: gpu, replicas: 2, rename: slice")).resources[0].rename, std::nullopt);
  EXPECT_THAT(
      said("sharing: {mps: {renameByDefault: true, resources: [{name: gpu, replicas: 2, rename: gpu.shared}]}}"),
      IsEmpty());
  for (const char* bad : {"null", "\"\"", "A", "5"})
    EXPECT_TRUE(refused(entry(std::string("name: gpu, replicas: 2, rename: ") + bad))) << bad;
}

TEST(SharingTest, DeviceSelectionIsCheckedAndNotUsed) {
  const std::string uuid = "GPU-3f2a1b4c-1111-2222-3333-444444444444";
  EXPECT_THAT(said(entry("name: gpu, replicas: 2, devices: all")), IsEmpty());
  for (const std::string& dropped :
       {std::string("2"), std::string("[0, 1]"), std::string("[]"), std::string("[\"0:1\"]"), std::string("[0:1]"),
        "[" + uuid + "]", "[MIG-" + uuid + "/1/2]"}) {
    EXPECT_THAT(said(entry("name: gpu, replicas: 2, devices: " + dropped)), ElementsAre(HasSubstr("warning")))
        << dropped;
    EXPECT_TRUE(std::holds_alternative<AllDevices>(
        sharing_in(entry("name: gpu, replicas: 2, devices: " + dropped)).resources[0].devices));
  }
  for (const char* bad :
       {"null", "some", "0", "-1", "1.5", "[-1]", "[x]", "[1.5]", "[[0]]", "{a: 1}", "true", "[GPU-1]"})
    EXPECT_TRUE(refused(entry(std::string("name: gpu, replicas: 2, devices: ") + bad))) << bad;
}

TEST(SharingTest, AConfigurationHasAtMostAThousandEntriesInAllLists) {
  const auto list = [](const char* section, int count) {
    std::string text = std::string("  ") + section + ":\n    resources:\n";
    const std::string name = std::string("nvidia.com/mig-") + section[0];
    for (int i = 0; i < count; ++i) text += "    - {name: " + name + std::to_string(i) + ", replicas: 2}\n";
    return text;
  };
  const std::string start = "version: v1\nsharing:\n";
  const auto most = parse(start + list("mps", 1000), "c");
  EXPECT_THAT(most.problems, IsEmpty());
  EXPECT_EQ(most.config.sharing.resources.size(), 1000u);
  const auto above = parse(start + list("mps", 1200), "c");
  ASSERT_EQ(above.problems.size(), 1u);
  EXPECT_THAT(to_string(above.problems[0]), HasSubstr("c:1005:7: error: sharing.mps.resources[1000]: is entry 1,001"));
  const auto both = parse(start + "  perDevice: true\n" + list("timeSlicing", 600) + list("mps", 600), "c");
  ASSERT_EQ(both.problems.size(), 1u);
  EXPECT_THAT(to_string(both.problems[0]), HasSubstr("sharing.mps.resources[400]: is entry 1,001"));
}

TEST(SharingTest, KeysHereAreCaseSensitive) {
  EXPECT_THAT(said(mps(kResources + ", RenameByDefault: true")),
              ElementsAre(HasSubstr(
                  "is not a known key (upper and lower case matter here) and is ignored; write renameByDefault")));
  EXPECT_TRUE(refused(mps("Resources: [{name: gpu, replicas: 2}]")));
  EXPECT_TRUE(refused(entry("Name: gpu, replicas: 2")));
  EXPECT_EQ(sharing_in("Sharing: {MPS: {" + kResources + "}}").strategy, SharingStrategy::kMps);
}

// Promise: config: MPS wins over time-slicing with a warning.
TEST(SharingTest, MpsWinsOverTimeSlicingAndSaysSo) {
  const std::string both = "sharing:\n  timeSlicing: {" + kResources + "}\n  mps: {" + kResources + "}\n";
  EXPECT_EQ(sharing_in(both).strategy, SharingStrategy::kMps);
  EXPECT_THAT(said(both), ElementsAre(HasSubstr("c:2:16: warning: sharing.timeSlicing: is ignored")));
  EXPECT_TRUE(refused("sharing: {mps: {" + kResources + "}, timeSlicing: {resources: []}}")) << "both are checked";
  EXPECT_EQ(sharing_in("{}").strategy, SharingStrategy::kNone);
}

TEST(SharingTest, OfTwoEntriesTheLaterCounts) {
  const std::string text = mps("resources: [{name: gpu, replicas: 2}, {name: nvidia.com/gpu, replicas: 3}]");
  EXPECT_THAT(said(text),
              ElementsAre(HasSubstr("warning: sharing.mps.resources: names nvidia.com/gpu here and again")));
  EXPECT_EQ(sharing_of(parse(text, "c").config, "nvidia.com/gpu")->replicas, 3u);
  EXPECT_EQ(sharing_of(parse(text, "c").config, "nvidia.com/other"), nullptr);
}

TEST(SharingTest, ProofsHaveAnIntervalOrNone) {
  using namespace std::chrono_literals;
  EXPECT_EQ(sharing_in(mps(kResources)).proof_every, Duration(10min));
  EXPECT_EQ(sharing_in(mps(kResources + ", proofEvery: 1h30m")).proof_every, Duration(90min));
  for (const char* off : {"0", "\"0\"", "0s"}) {
    EXPECT_EQ(sharing_in(mps(kResources + ", proofEvery: " + off)).proof_every, Duration{}) << off;
  }
  for (const char* bad : {"5", "1s", "true", "infinite", "-10m", "often", "[10m]"}) {
    EXPECT_TRUE(refused(mps(kResources + ", proofEvery: " + bad))) << bad;
  }
}

TEST(SharingTest, StoppedClientsAreGivenTimeForTheirQueues) {
  using namespace std::chrono_literals;
  EXPECT_EQ(sharing_in(mps(kResources)).stop_patience, Duration(2s));
  EXPECT_EQ(sharing_in(mps(kResources + ", stopPatience: 100ms")).stop_patience, Duration(100ms));
  EXPECT_EQ(sharing_in(mps(kResources + ", stopPatience: 1m")).stop_patience, Duration(60s));
  EXPECT_EQ(sharing_in(mps(kResources + ", stopPatience: null")).stop_patience, Duration(2s));
  for (const char* bad : {"5", "0", "99ms", "60001ms", "true", "infinite", "-2s", "long", "[2s]", "{a: 2s}"}) {
    EXPECT_TRUE(refused(mps(kResources + ", stopPatience: " + bad))) << bad;
    EXPECT_EQ(parse(mps(kResources + ", stopPatience: " + bad), "c").config.sharing.stop_patience, Duration(2s)) << bad;
  }
  EXPECT_THAT(said(slicing(kResources + ", stopPatience: 2s")), Contains(HasSubstr("is not a known key")));
}

TEST(SharingTest, FrameworksGetTheirVariablesUnlessSaidOtherwise) {
  EXPECT_TRUE(sharing_in(mps(kResources)).framework_environment);
  EXPECT_TRUE(sharing_in(mps(kResources + ", frameworkEnvironment: true")).framework_environment);
  EXPECT_FALSE(sharing_in(mps(kResources + ", frameworkEnvironment: false")).framework_environment);
}

TEST(SharingTest, OurKeysSayWhatMpsDoesWithModeAndRounding) {
  const Sharing standard = sharing_in(mps(kResources));
  EXPECT_EQ(standard.compute_mode, ComputeModePolicy::kExclusive);
  EXPECT_EQ(standard.sm_rounding, SmRounding::kUp);
  EXPECT_EQ(sharing_in(mps(kResources + ", computeMode: leave")).compute_mode, ComputeModePolicy::kLeave);
  EXPECT_EQ(sharing_in(mps(kResources + ", smRounding: down")).sm_rounding, SmRounding::kDown);
  EXPECT_EQ(sharing_in(mps(kResources + ", smRounding: off")).sm_rounding, SmRounding::kOff) << "a boolean in YAML 1.1";
  EXPECT_EQ(sharing_in(mps(kResources + ", smRounding: \"off\"")).sm_rounding, SmRounding::kOff);
  EXPECT_TRUE(refused(mps(kResources + ", smRounding: true")));
  EXPECT_THAT(said(mps(kResources + ", computeMode: leave")), IsEmpty());
  EXPECT_THAT(said(slicing(kResources + ", computeMode: leave")), Contains(HasSubstr("is not a known key")));
}

TEST(SharingTest, OurKeysSayHowManyClientsAndByWhatMeans) {
  const Sharing standard = sharing_in(mps(kResources));
  EXPECT_EQ(standard.endpoint, EndpointPolicy::kRelay);
  EXPECT_EQ(sharing_in(mps(kResources + ", endpoint: link")).endpoint, EndpointPolicy::kLink);
  EXPECT_EQ(standard.max_clients, 0u);
  EXPECT_EQ(standard.processes_per_slot, 1u);
  EXPECT_FALSE(standard.mig_devices);
  const Sharing given = sharing_in(mps(kResources + ", maxClients: 60, processesPerSlot: 4, migDevices: yes"));
  EXPECT_EQ(given.max_clients, 60u);
  EXPECT_EQ(given.processes_per_slot, 4u);
  EXPECT_TRUE(given.mig_devices);
  EXPECT_THAT(said(mps(kResources + ", maxClients: 0")),
              ElementsAre(HasSubstr("sharing.mps.maxClients: must be from 1 to 1024, but is 0")));
}

}  // namespace parse_sharing_test
}  // namespace tranche::config
