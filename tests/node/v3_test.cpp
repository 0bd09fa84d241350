// Tier v3 from configuration to CUDA: the real programs, and the stand-in of release 615.
#include <csignal>

#include "node/bed.h"

namespace tranche::e2e {
namespace {

using ::testing::HasSubstr;

class NodeV3 : public NodeBed {
 protected:
  void start_v3(int slots, const std::string& driver = "615.10") {
    ASSERT_NO_FATAL_FAILURE(make_node(1, "driver: " + driver + "\n"));
    write("config.yaml", sharing("mps", slots, "    tier: v3\n"));
    ASSERT_NO_FATAL_FAILURE(start_kubelet());
    start_mps();
    start_node();
    ASSERT_TRUE(until_healthy(static_cast<std::uint64_t>(slots)));
  }
};

TEST_F(NodeV3, AContainerHasTheSharesOfItsSlotsBeforeAndAfterRestarts) {
  start_v3(4);
  EXPECT_EQ(pool_of(until_serving(1), 0)["tier"], "v3");
  const auto two = admitted(kubelet(), "a", 2);
  const auto one = admitted(kubelet(), "b", 1);
  const auto first = attached(start_cuda(two, {}));
  EXPECT_EQ(first["runs_on"], 66) << first;
  Program& tenant = start_cuda(one, {"--hold"});
  const auto quarter = attached(tenant);
  EXPECT_EQ(quarter["runs_on"], 32) << quarter;
  EXPECT_LT(quarter["limit"].get<std::uint64_t>(), first["limit"].get<std::uint64_t>());

  stop(*program("mps"), SIGKILL, 128 + SIGKILL);
  const pid_t second = start_mps().pid();
  const auto again = until_mps([&](const Json& status) {
    return status["pid"] == second && status["pools"].size() == 1 && pool_of(status, 0)["state"] == "serving";
  });
  EXPECT_EQ(again["pid"], second);
  EXPECT_TRUE(tenant.running()) << "a restart of ours disturbs nobody";
  EXPECT_EQ(attached(start_cuda(two, {}))["runs_on"], 66);

  const auto before = until_serving(1);
  ASSERT_EQ(::kill(pool_of(before, 0)["daemonPid"], SIGKILL), 0);
  (void)until_mps([](const Json& status) {
    return pool_of(status, 0)["restarts"] != 0 && pool_of(status, 0)["state"] == "serving";
  });
  EXPECT_EQ(attached(start_cuda(two, {}))["runs_on"], 66) << "what the container was given at first is right still";
  EXPECT_EQ(attached(start_cuda(one, {}))["runs_on"], 32);
}

// Promise: mps/daemon/tier-v3: A client's own variables do not raise the namespace's limits.
TEST_F(NodeV3, WhatAContainerAsksForByItselfGivesItNoMore) {
  start_v3(4);
  auto one = admitted(kubelet(), "a", 1);
  const auto given = attached(start_cuda(one, {}));
  one.envs["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = "100";
  one.envs["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = uuid(0) + "=100G";
  const auto greedy = attached(start_cuda(one, {}));
  EXPECT_EQ(greedy["runs_on"], 32) << greedy;
  EXPECT_EQ(greedy["limit"], given["limit"]);
}

TEST_F(NodeV3, ADriverThatDoesNotKnowItIsServedByV2AndSaysWhy) {
  start_v3(4, "590.44.01");
  const auto pool = pool_of(until_serving(1), 0);
  EXPECT_EQ(pool["tier"], "v2");
  EXPECT_THAT(pool["reason"].get<std::string>(), HasSubstr("has no -p (namespaces come with driver release 615)"));
  EXPECT_EQ(attached(start_cuda(admitted(kubelet(), "a", 2), {}))["runs_on"], 66);
}

}  // namespace
}  // namespace tranche::e2e
