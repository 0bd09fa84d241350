// A change of the configuration on a node that is at work, as kubelet and running containers see it.
#include <algorithm>
#include <csignal>
#include <filesystem>

#include "node/bed.h"
#include "node/http_get.h"

namespace tranche::e2e {
namespace {

using ::testing::HasSubstr;

class NodeChange : public NodeBed {
 protected:
  static std::string two(int first, int second, const std::string& strategy = "timeSlicing") {
    const auto entry = [&](int gpu, const char* name, int replicas) {
      return "    - {name: nvidia.com/gpu, devices: [" + std::to_string(gpu) + "], rename: nvidia.com/" + name +
             ", replicas: " + std::to_string(replicas) + "}\n";
    };
    return "version: v1\nsharing:\n  perDevice: true\n  " + strategy + ":\n    failRequestsGreaterThanOne: false\n" +
           "    resources:\n" + entry(0, "gpu.a", first) + entry(1, "gpu.b", second);
  }
  bool until_listed(const std::string& resource, std::uint64_t capacity, std::uint64_t healthy) {
    const auto view = kubelet().wait_for_devices(
        resource, [&](const sim::ResourceView& v) { return v.capacity == capacity && v.healthy() == healthy; }, kSoon);
    EXPECT_TRUE(view) << to_string(view.error());
    return view.has_value();
  }
  std::size_t messages_of(const std::string& resource) {
    const auto all = kubelet().messages();
    return static_cast<std::size_t>(
        std::ranges::count(all, resource, [](const sim::StreamMessage& m) { return m.resource; }));
  }
  std::size_t registrations_of(const std::string& resource) {
    const auto all = kubelet().registrations();
    return static_cast<std::size_t>(
        std::ranges::count(all, resource, [](const sim::Registration& r) { return r.resource; }));
  }
  sim::ContainerGrant admitted_to(const std::string& pod, const std::string& resource) {
    const auto admission = kubelet().admit(sim::one_container_pod(pod, resource, 1));
    EXPECT_TRUE(admission.admitted) << admission.message;
    return admission.admitted ? admission.containers.front() : sim::ContainerGrant{};
  }
  // kubelet does not announce that a pod ended; a reader of the status makes the agent ask.
  void pod_ends(const std::string& pod) {
    kubelet().remove_pod("default/" + pod);
    EXPECT_EQ(run({tranche(), "status", "--socket", node_socket()}), 0);
  }
  Json until_waiting(std::size_t steps) {
    return until_node([steps](const Json& s) { return s["change"]["waitingFor"].size() == steps; });
  }
};

// Promise: change: An equal plan changes nothing.
TEST_F(NodeChange, LeavesTheStreamOfAResourceThatItDoesNotTouchAlone) {
  make_node(2);
  write("config.yaml", two(4, 4));
  start_kubelet();
  start_node();
  ASSERT_TRUE(until_listed("nvidia.com/gpu.a", 4, 4));
  ASSERT_TRUE(until_listed("nvidia.com/gpu.b", 4, 4));
  const auto messages = messages_of("nvidia.com/gpu.a");
  write("config.yaml", two(4, 7));
  ASSERT_TRUE(until_listed("nvidia.com/gpu.b", 7, 7));
  EXPECT_EQ(messages_of("nvidia.com/gpu.a"), messages);
  for (const char* resource : {"nvidia.com/gpu.a", "nvidia.com/gpu.b"})
    EXPECT_EQ(registrations_of(resource), 1u) << "not even the one that changed is registered anew";
  const auto status = until_node([](const Json& s) { return !s["change"]["steps"].empty(); });
  EXPECT_EQ(status["change"]["steps"][0]["text"], "nvidia.com/gpu.b on GPU 1: 4 → 7 slots");
  EXPECT_EQ(status["change"]["steps"][0]["state"], "done");
}

// Promise: change: Where PodResources is not mounted a change applies at once.
TEST_F(NodeChange, IsDoneAtOnceWhereKubeletsSocketForHoldingsIsNotMounted) {
  make_node(1);
  write("config.yaml", "version: v1\n");
  start_kubelet();
  ASSERT_TRUE(std::filesystem::remove(in("run/pod-resources.sock")));
  auto& node = start_node();
  ASSERT_TRUE(until_healthy(1));
  admitted_to("a", kGpu);
  write("config.yaml", sharing("timeSlicing", 4));
  EXPECT_TRUE(until_healthy(4));
  EXPECT_TRUE(until_says(node, "change.unguarded"));
}

TEST_F(NodeChange, ToMpsIsNotKeptWaitingByHoldersWhoseEndIsNotReported) {
  make_node(1);
  write("config.yaml", sharing("timeSlicing", 4));
  std::filesystem::create_directories(in("mps"));
  start_kubelet();
  ASSERT_TRUE(std::filesystem::remove(in("run/pod-resources.sock")));
  auto& node = start_node();
  ASSERT_TRUE(until_healthy(4));
  admitted_to("a", kGpu);
  write("config.yaml", sharing("mps", 5));
  ASSERT_TRUE(until_says(node, "change.step"));
  start_mps();  // as the MPS pod, which comes when the node's label says so
  EXPECT_TRUE(until_healthy(5)) << "the pool waits for a holder that may be gone long since";
}

TEST_F(NodeChange, FindsOutWhatAnAgentBeforeItWroteOfHoldersThatAreGone) {
  make_node(1);
  write("config.yaml", sharing("mps", 5));
  std::filesystem::create_directories(in("mps"));
  write("mps/other-holders", uuid(0) + "\n");
  start_kubelet();
  start_mps();
  start_node();
  EXPECT_TRUE(until_healthy(5)) << "the pool waits for holders that kubelet does not name";
}

// Promise: change: A pool that began before its holders were known ends for them and begins after them.
TEST_F(NodeChange, APoolThatBeganBeforeItsHoldersWereKnownEndsForThemAndBeginsAfterThem) {
  make_node(2);
  write("config.yaml", sharing("timeSlicing", 4));
  start_kubelet();
  Program& before = start_node();
  ASSERT_TRUE(until_healthy(8));
  const auto grant = admitted_to("a", kGpu);
  stop(before, SIGTERM, 0);
  std::filesystem::remove(in("mps/other-holders"));
  write("config.yaml", sharing("mps", 5));
  Program& mps = start_mps();
  until_serving(2);
  start_node();
  const int held = grant.envs.at("NVIDIA_VISIBLE_DEVICES") == uuid(0) ? 0 : 1;
  until_mps([&](const Json& status) {
    const auto& pool = pool_of(status, held);
    return pool["state"] == "absent" && pool["reason"].get<std::string>().contains("without MPS");
  });
  EXPECT_TRUE(until([&] { return mps.err().contains(R"("mode":"DEFAULT")"); }, "its compute mode to be given back"));
  EXPECT_EQ(pool_of(until_mps([](const Json&) { return true; }), 1 - held)["state"], "serving");
  pod_ends("a");
  until_serving(2);
  EXPECT_TRUE(until_healthy(10));
}

// Promise: change: Held slots stay on kubelet's list, unhealthy, until they are free.
TEST_F(NodeChange, OfFewerSlotsLeavesThoseThatAreHeldUntilTheyAreFree) {
  make_node(1);
  write("config.yaml", sharing("timeSlicing", 6));
  start_kubelet();
  start_node();
  ASSERT_TRUE(until_healthy(6));
  for (const char* pod : {"a", "b", "c", "d", "e"}) admitted_to(pod, kGpu);
  until_node([](const Json& s) { return s["grants"].size() == 5; });
  write("config.yaml", sharing("timeSlicing", 2));
  until_waiting(1);
  ASSERT_TRUE(kubelet().wait_for_healthy(kGpu, 2, kSoon));
  const auto view = kubelet().view(kGpu);
  EXPECT_GT(view.capacity, 2u);
  for (const auto& slot : view.allocated)
    EXPECT_TRUE(std::ranges::any_of(view.devices, [&](const auto& device) { return device.id == slot; })) << slot;
  for (const char* pod : {"b", "c", "d", "e"}) kubelet().remove_pod(std::string("default/") + pod);
  pod_ends("a");
  ASSERT_TRUE(until_listed(kGpu, 2, 2));
  until_waiting(0);
}

// Promise: change: A GPU changes its sharing when nothing of it is held; other GPUs change at once.
TEST_F(NodeChange, OfMeansWaitsForTheGpuThatIsHeldAndOfTheOtherIsDoneAtOnce) {
  make_node(2);
  write("config.yaml", two(4, 4));
  start_kubelet();
  start_mps();
  until_mps([](const Json&) { return true; });
  start_node();
  ASSERT_TRUE(until_listed("nvidia.com/gpu.a", 4, 4));
  ASSERT_TRUE(until_listed("nvidia.com/gpu.b", 4, 4));
  Program& tenant = start_cuda(admitted_to("a", "nvidia.com/gpu.a"), {"--hold"});
  ASSERT_EQ(attached(tenant)["mps"], false);
  until_node([](const Json& s) { return s["grants"].size() == 1; });

  write("config.yaml", two(4, 10, "mps"));
  ASSERT_TRUE(until_listed("nvidia.com/gpu.b", 10, 10));
  ASSERT_TRUE(until_listed("nvidia.com/gpu.a", 4, 0));
  const auto waiting = until_waiting(1);
  EXPECT_EQ(waiting["change"]["waitingFor"][0], "GPU 0: time-slicing → MPS (waits: 1 slot is held)");
  EXPECT_TRUE(tenant.running());
  until_mps([](const Json& s) {
    return std::ranges::any_of(s["pools"], [](const Json& pool) {
      return pool["reason"].get<std::string>().find("containers hold") != std::string::npos;
    });
  });
  Program& view = start({tranche(), "status", "--socket", node_socket()});
  EXPECT_EQ(finish(view), 0);
  EXPECT_THAT(view.out(), HasSubstr("change: GPU 0: time-slicing → MPS (waits: 1 slot is held)"));

  tenant.signal(SIGTERM);
  finish(tenant);
  pod_ends("a");
  ASSERT_TRUE(until_listed("nvidia.com/gpu.a", 4, 4));
  until_waiting(0);
  EXPECT_EQ(attached(start_cuda(admitted_to("c", "nvidia.com/gpu.a"), {}))["mps"], true);
}

// Promise: change: A pool serves until the last container with its endpoint has ended.
TEST_F(NodeChange, LeavesTheEndpointOfAContainerThatHasNotStartedYetAndEndsThePoolBehindIt) {
  make_node(2);
  write("config.yaml", two(4, 4, "mps"));
  start_kubelet();
  start_mps();
  start_node();
  ASSERT_TRUE(until_listed("nvidia.com/gpu.a", 4, 4));
  ASSERT_TRUE(until_listed("nvidia.com/gpu.b", 4, 4));
  const auto grant = admitted_to("a", "nvidia.com/gpu.a");
  admitted_to("z", "nvidia.com/gpu.b");
  until_node([](const Json& s) { return s["grants"].size() == 2; });
  write("config.yaml", two(3, 3));
  until_waiting(2);
  until_mps([](const Json& s) {
    return s["pools"].size() == 2 && std::ranges::all_of(s["pools"], [](const Json& pool) {
             return pool["reason"].get<std::string>().find("not configured any more") != std::string::npos;
           });
  });
  Program& late = start_cuda(grant, {});
  EXPECT_EQ(attached(late)["mps"], true) << "what was granted holds";
  finish(late);
  pod_ends("a");
  ASSERT_TRUE(until_listed("nvidia.com/gpu.a", 3, 3));
  until_mps([](const Json& s) { return s["pools"].size() == 1; });
  const auto line = attached(start_cuda(admitted_to("b", "nvidia.com/gpu.a"), {}));
  EXPECT_EQ(line["event"], "attached") << line;
  EXPECT_EQ(line["mps"], false);
  until_waiting(1);
}

// Promise: change: An agent that starts in the middle of a change continues it.
TEST_F(NodeChange, IsFoundOutByAnAgentThatStartsInTheMiddleOfIt) {
  make_node(1);
  write("config.yaml", sharing("timeSlicing", 4));
  start_kubelet();
  start_mps();
  until_mps([](const Json&) { return true; });
  Program& first = start_node();
  ASSERT_TRUE(until_healthy(4));
  admitted(kubelet(), "a", 1);
  until_node([](const Json& s) { return s["grants"].size() == 1; });
  stop(first, SIGTERM, 0);
  write("config.yaml", sharing("mps", 10));
  start_node();
  const auto waiting = until_waiting(1);
  EXPECT_THAT(waiting["change"]["waitingFor"][0].get<std::string>(), HasSubstr("time-slicing → MPS"));
  ASSERT_TRUE(until_listed(kGpu, 1, 0));
  pod_ends("a");
  ASSERT_TRUE(until_healthy(10));
}

}  // namespace
}  // namespace tranche::e2e
