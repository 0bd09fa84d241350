// The static tier from configuration to CUDA: the real programs, and the stand-in of release 590.
#include <csignal>

#include "node/bed.h"

namespace tranche::e2e {
namespace {

using ::testing::HasSubstr;

class NodeStatic : public NodeBed {
 protected:
  void start_static(int slots) {
    ASSERT_NO_FATAL_FAILURE(make_node(1, "driver: 590.44.01\n"));
    write("config.yaml", sharing("mps", slots, "    tier: static\n"));
    ASSERT_NO_FATAL_FAILURE(start_kubelet());
    start_mps();
    start_node();
    ASSERT_TRUE(until_healthy(static_cast<std::uint64_t>(slots)));
  }
};

// Promise: mps/tier-static: A slot keeps its partition over restarts.
TEST_F(NodeStatic, AContainerRunsOnTheSmsOfItsSlotsAndSoDoesItsRestart) {
  start_static(4);
  const auto two = admitted(kubelet(), "a", 2);
  const auto one = admitted(kubelet(), "b", 1);
  const auto first = attached(start_cuda(two, {}));
  EXPECT_EQ(first["runs_on"], 64) << first;
  Program& tenant = start_cuda(one, {"--hold"});
  EXPECT_EQ(attached(tenant)["runs_on"], 32);

  const auto before = until_serving(1);
  ASSERT_EQ(::kill(pool_of(before, 0)["daemonPid"], SIGKILL), 0);
  (void)until_mps([](const Json& status) {
    return pool_of(status, 0)["restarts"] != 0 && pool_of(status, 0)["state"] == "serving";
  });
  EXPECT_EQ(attached(start_cuda(two, {}))["runs_on"], 64) << "what the container was given at first is right still";
  EXPECT_EQ(attached(start_cuda(one, {}))["runs_on"], 32);
}

TEST_F(NodeStatic, WhatCannotBeJoinedIsRefusedWithASentence) {
  start_static(4);
  const auto one = admitted(kubelet(), "a", 1);
  Program& tenant = start_cuda(one, {"--hold"});
  ASSERT_EQ(attached(tenant)["event"], "attached");
  (void)until_mps([](const Json& status) { return pool_of(status, 0)["clients"]["live"] == 1; });
  const auto refused = kubelet().admit(sim::one_container_pod("b", "nvidia.com/gpu", 2));
  EXPECT_FALSE(refused.admitted);
  EXPECT_THAT(refused.message, HasSubstr("2 slots need a partition of their own"));
  EXPECT_EQ(attached(start_cuda(admitted(kubelet(), "c", 1), {}))["runs_on"], 32) << "single slots go on";
  EXPECT_TRUE(tenant.running());
}

}  // namespace
}  // namespace tranche::e2e
