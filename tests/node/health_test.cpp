// A GPU's bad days, from the driver's event to kubelet's list, and the way back.
#include <algorithm>

#include "node/bed.h"
#include "node/http_get.h"

namespace tranche::e2e {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class NodeHealth : public NodeBed {
 protected:
  // `tranche node` alone, time-sliced, until all slots are healthy; a fault is over after a quiet 300 ms.
  void start_sliced(int gpus, int slots, Strings more = {}) {
    ASSERT_NO_FATAL_FAILURE(make_node(gpus));
    ASSERT_NO_FATAL_FAILURE(start_on(sharing("timeSlicing", slots), std::move(more)));
    ASSERT_TRUE(until_healthy(static_cast<std::uint64_t>(gpus) * static_cast<std::uint64_t>(slots)));
  }
  void start_on(const std::string& config, Strings more = {}) {
    write("config.yaml", config);
    ASSERT_NO_FATAL_FAILURE(start_kubelet());
    more.insert(more.begin(), {"--health-quiet-period", "300ms"});
    start_node(std::move(more));
  }
  // The first status in which this device is as given.
  Json until_device(int device, bool healthy, const std::string& cause = "") {
    return until_node([&](const Json& s) {
      if (s["devices"].size() <= static_cast<std::size_t>(device)) return false;
      const Json& shown = device_of(s, device);
      return shown["healthy"] == healthy && shown.value("cause", "") == cause;
    });
  }
  // Some list after the first `after` messages has so many healthy devices: a fault may be over before it is looked at.
  bool until_listed(std::size_t after, std::ptrdiff_t healthy) {
    std::size_t number = 0;
    const auto message = kubelet().wait_for_message(
        [&](const sim::StreamMessage& each) {
          return ++number > after && std::ranges::count(each.devices, true, &sim::Device::healthy) == healthy;
        },
        kSoon);
    EXPECT_TRUE(message) << to_string(message.error());
    return message.has_value();
  }
  std::string reason_of(const Json& status, int device) { return device_of(status, device)["reason"]; }
  std::size_t lines_with(const std::string& text) {
    std::size_t count = 0;
    const std::string& log = program("node")->err();
    for (auto at = log.find(text); at != std::string::npos; at = log.find(text, at + 1)) ++count;
    return count;
  }
};

// Promise: health: An XID marks the slots of its GPU; an application's XID does not.
TEST_F(NodeHealth, AnXidMakesTheSlotsOfItsGpuUnhealthyAndAnApplicationsXidNone) {
  start_all(2, 3);
  const auto messages = kubelet().messages().size();
  sim_node({"gpu", "0", "xid", "31"});
  sim_node({"gpu", "1", "xid", "79"});
  ASSERT_TRUE(until_list_says(messages, 1, false));
  EXPECT_TRUE(never_unhealthy(messages, 0)) << "events come in order, so the one of before was seen as well";
  const auto status = until_node([](const Json& s) { return device_of(s, 1)["healthy"] == false; });
  EXPECT_THAT(reason_of(status, 1), AllOf(HasSubstr("XID 79"), HasSubstr("5m")));
  EXPECT_EQ(device_of(status, 0)["healthy"], true);
  EXPECT_TRUE(until_says(*program("node"), "\"xid\":31,\"class\":\"application\""));
}

// Promise: health: After a quiet period a GPU that answers is healthy again.
TEST_F(NodeHealth, AfterAQuietPeriodInWhichTheGpuAnswersItTakesPodsAgain) {
  start_sliced(2, 3, {"--listen", "127.0.0.1:0"});
  const auto messages = kubelet().messages().size();
  sim_node({"gpu", "1", "xid", "79"});
  ASSERT_TRUE(until_list_says(messages, 1, false)) << "all three slots in one list";
  ASSERT_TRUE(until_healthy(6));
  EXPECT_TRUE(never_unhealthy(messages, 0));
  const auto status = until_device(1, true);
  EXPECT_EQ(reason_of(status, 1), "");
  EXPECT_TRUE(until_says(*program("node"), "\"event\":\"device.unhealthy\""));
  EXPECT_TRUE(until_says(*program("node"), "\"event\":\"device.healthy\""));
  EXPECT_TRUE(until_says(*program("node"), "\"lasted_ms\":"));
  const auto page = http_get(pages_of(*program("node")), "/metrics");
  EXPECT_THAT(page, HasSubstr("tranche_device_falls_total{cause=\"xid\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("tranche_devices_unhealthy{cause=\"xid\"} 0\n"));
  EXPECT_THAT(page, HasSubstr("tranche_health_checks 1\n"));
  EXPECT_THAT(page, HasSubstr("tranche_xid_events_total{gpu=\"" + uuid(1) + "\",xid=\"79\"} 1\n"));
}

TEST_F(NodeHealth, AGpuThatDoesNotAnswerAfterItsQuietPeriodStaysUnhealthyUntilItDoes) {
  start_sliced(2, 2);
  sim_node({"fail", "nvmlDeviceGetMemoryInfo", "999", "--gpu", "1"});
  sim_node({"gpu", "1", "xid", "79"});
  sim_node({"gpu", "0", "xid", "79"});
  ASSERT_TRUE(until_says(*program("node"), "\"event\":\"device.healthy\",\"device\":\"" + uuid(0)));
  ASSERT_FALSE(until_device(1, false, "xid").is_null());
  ASSERT_TRUE(until_healthy_of(4, 2)) << "the other one has recovered";
  sim_node({"clear"});
  EXPECT_TRUE(until_healthy(4));
}

// Promise: health: A fault that needs a reset ends when the driver's demand is met.
TEST_F(NodeHealth, AFaultThatNeedsAResetIsNotWaitedOutAndEndsWhenTheDriversDemandIsMet) {
  start_sliced(2, 2, {"--listen", "127.0.0.1:0"});
  sim_node({"gpu", "1", "xid", "95"});
  ASSERT_FALSE(until_device(1, false, "reset").is_null());
  const auto messages = kubelet().messages().size();
  sim_node({"gpu", "0", "xid", "54"});
  ASSERT_TRUE(until_listed(messages, 0));
  ASSERT_TRUE(until_healthy_of(4, 2));
  const auto later = until_device(0, true);
  EXPECT_EQ(device_of(later, 1)["healthy"], false) << "it fell first, and its quiet period is over too";
  EXPECT_THAT(http_get(pages_of(*program("node")), "/metrics"),
              HasSubstr("tranche_devices_unhealthy{cause=\"reset\"} 1\n"));
  sim_node({"gpu", "1", "recovery", "1"});
  const auto asked =
      until_node([&](const Json& s) { return reason_of(s, 1).find("the driver asks for") != std::string::npos; });
  EXPECT_THAT(reason_of(asked, 1), HasSubstr("XID 95"));
  sim_node({"gpu", "1", "recovery", "0"});
  EXPECT_TRUE(until_healthy(4));
}

// Promise: health: A demand from before the agent's start is seen.
TEST_F(NodeHealth, ADemandFromBeforeTheAgentsTimeIsSeenAtItsStart) {
  make_node(2);
  sim_node({"gpu", "1", "recovery", "2"});
  start_on(sharing("timeSlicing", 2));
  const auto status = until_device(1, false, "reset");
  EXPECT_THAT(reason_of(status, 1), HasSubstr("a reboot of the node"));
  EXPECT_TRUE(until_healthy_of(4, 2));
}

TEST_F(NodeHealth, ALostGpuFailsNoCallForTheOthers) {
  start_sliced(3, 2);
  sim_node({"gpu", "1", "lost"});
  ASSERT_TRUE(until_healthy_of(6, 4));
  for (const char* pod : {"a", "b"}) {
    const auto grant = admitted(kubelet(), pod, 2);
    for (const auto& [resource, ids] : grant.slots)
      for (const auto& id : ids) EXPECT_THAT(id, Not(HasSubstr(uuid(1))));
  }
  for (const auto& call : kubelet().calls()) EXPECT_EQ(call.status, 0) << call.message;
  const auto refused = kubelet().admit(sim::one_container_pod("c", kGpu, 1));
  EXPECT_FALSE(refused.admitted) << "what is left is lost";
  sim_node({"gpu", "1", "back"});
  ASSERT_TRUE(until_healthy(6));
  EXPECT_EQ(admitted(kubelet(), "d", 2).slots.size(), 1u);
}

// Promise: health: An XID with instances marks that MIG device, one without marks the GPU.
TEST_F(NodeHealth, AnEventOfInstancesMarksThatMigDeviceAloneAndOneWithoutMarksAllOfTheGpu) {
  write("node/node.yaml", "gpus:\n  - {profile: H200, mig: [3g.71gb, 3g.71gb]}\n");
  start_on("version: v1\nflags: {migStrategy: single}\nsharing:\n  timeSlicing:\n    resources:\n    - name: " +
           std::string(kGpu) + "\n      replicas: 2\n");
  ASSERT_TRUE(until_healthy(4));
  sim_node({"gpu", "0", "xid", "95", "--gi", "2", "--ci", "0"});
  ASSERT_TRUE(until_healthy_of(4, 2)) << "both replicas of one of the two";
  const auto status =
      until_node([](const Json& s) { return device_of(s, 0)["healthy"] != device_of(s, 1)["healthy"]; });
  const int hit = device_of(status, 0)["healthy"] == true ? 1 : 0;
  EXPECT_EQ(device_of(status, hit)["cause"], "reset");
  const auto messages = kubelet().messages().size();
  sim_node({"gpu", "0", "xid", "79", "--gi", "9", "--ci", "0"});  // of nobody
  sim_node({"gpu", "0", "xid", "54"});
  ASSERT_TRUE(until_listed(messages, 0));
  EXPECT_TRUE(until_healthy_of(4, 2)) << "the GPU recovers, the MIG device that needs a reset does not";
  EXPECT_TRUE(until_says(*program("node"), "no MIG device in GPU instance 9"));
}

// Promise: health: XIDs are disabled and enabled by number.
TEST_F(NodeHealth, TheVariablesDisableAndEnableXidsByNumber) {
  environment_ = {{"DP_DISABLE_HEALTHCHECKS", "79, Oops"}, {"DP_ENABLE_HEALTHCHECKS", "31"}};
  start_sliced(3, 2);
  const auto messages = kubelet().messages().size();
  sim_node({"gpu", "0", "xid", "79"});
  sim_node({"gpu", "1", "xid", "31"});
  ASSERT_TRUE(until_list_says(messages, 1, false)) << "31 counts now";
  EXPECT_TRUE(never_unhealthy(messages, 0)) << "79 does not";
  const auto status = until_healthy(6) ? until_device(1, true) : Json();
  EXPECT_THAT(status["health"]["problems"].dump(), AllOf(HasSubstr("oops"), HasSubstr("DP_DISABLE_HEALTHCHECKS")));
  EXPECT_TRUE(until_says(*program("node"), "\"event\":\"health.problem\""));
}

// Promise: health: With all checks disabled a lost GPU is noticed and the state is reported.
TEST_F(NodeHealth, AllDisabledIsSaidEverywhereAndALostGpuIsStillNoticed) {
  environment_ = {{"DP_DISABLE_HEALTHCHECKS", "13,ALL"}};
  start_sliced(2, 2, {"--listen", "127.0.0.1:0"});
  const auto messages = kubelet().messages().size();
  sim_node({"gpu", "0", "xid", "79"});
  sim_node({"gpu", "1", "lost"});
  ASSERT_TRUE(until_list_says(messages, 1, false));
  EXPECT_TRUE(never_unhealthy(messages, 0));
  const auto status = until_device(1, false, "lost");
  EXPECT_EQ(status["health"]["checks"], "off");
  EXPECT_EQ(status["health"]["reason"], "health checks are disabled by DP_DISABLE_HEALTHCHECKS");
  EXPECT_THAT(status["notes"].dump(), HasSubstr("health checks are disabled by DP_DISABLE_HEALTHCHECKS"));
  EXPECT_TRUE(until_says(*program("node"), "health checks are disabled by DP_DISABLE_HEALTHCHECKS"));
  EXPECT_THAT(http_get(pages_of(*program("node")), "/metrics"), HasSubstr("tranche_health_checks 0\n"));
  sim_node({"gpu", "1", "back"});
  EXPECT_TRUE(until_healthy(4));
}

TEST_F(NodeHealth, AGpuWithoutEventsIsHealthyAndTheLogWarns) {
  make_node(2);
  sim_node({"fail", "nvmlDeviceGetSupportedEventTypes", "3", "--gpu", "1"});
  start_on(sharing("timeSlicing", 2));
  EXPECT_TRUE(until_healthy(4));
  EXPECT_TRUE(until_says(*program("node"), "\"event\":\"gpu.unsupported\""));
}

// Promise: health: When waiting for events fails all GPUs are unhealthy until it works.
TEST_F(NodeHealth, WhenWaitingForEventsFailsAllAreUnhealthyUntilItWorksAndTheLogIsShort) {
  start_sliced(2, 2);
  sim_node({"fail", "nvmlEventSetWait", "999"});
  ASSERT_TRUE(until_healthy_of(4, 0));
  const auto status = until_device(0, false, "unwatched");
  EXPECT_THAT(reason_of(status, 0), HasSubstr("waiting for events fails"));
  sim_node({"clear"});
  ASSERT_TRUE(until_healthy(4));
  ASSERT_TRUE(until_says(*program("node"), "\"event\":\"device.healthy\""));
  EXPECT_EQ(lines_with("\"event\":\"gpu.unwatched\""), 2u) << "one a GPU, however often it was tried";
}

TEST_F(NodeHealth, ADriverThatFailsAsAWholeMakesAllUnhealthyUntilItAnswers) {
  start_sliced(2, 2);
  sim_node({"fail", "nvmlDeviceGetCount", "999"});
  sim_node({"gpu", "1", "lost"});  // makes the agent look
  ASSERT_TRUE(until_healthy_of(4, 0));
  const auto status = until_device(0, false, "driver");
  EXPECT_THAT(reason_of(status, 0), HasSubstr("cannot count the GPUs"));
  sim_node({"gpu", "1", "back"});
  sim_node({"clear"});
  EXPECT_TRUE(until_healthy(4));
}

TEST_F(NodeHealth, AQuietPeriodThatIsNoneIsRefusedWithAnExample) {
  make_node(1);
  for (const char* period : {"soon", "0", "-5m", "infinite", "25h"}) {
    Program& node = start_node({"--health-quiet-period", period});
    EXPECT_NE(finish(node), 0) << period;
    EXPECT_THAT(node.err() + node.out(), AllOf(HasSubstr("--health-quiet-period"), HasSubstr("for example 5m")))
        << period;
  }
}

}  // namespace
}  // namespace tranche::e2e
