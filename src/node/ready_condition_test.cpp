#include "node/reports.h"

#include <gmock/gmock.h>

namespace tranche::node {
namespace node_condition_test {

using testing::HasSubstr;

Snapshot serving() {
  Snapshot s;
  s.inventory.emplace();
  plan::PlannedPool pool;
  pool.id = "gpu-a";
  s.plan.pools.push_back(pool);
  pool.id = "gpu-b";
  s.plan.pools.push_back(pool);
  return s;
}

TEST(TrancheReady, IsServingWhenNothingIsAmiss) {
  const auto condition = node_condition(serving());
  EXPECT_TRUE(condition.ready);
  EXPECT_EQ(condition.reason, "Serving");
}

TEST(TrancheReady, IsFalseWithoutADriverAndWithAPlanThatCannotBeMade) {
  Snapshot s;
  s.driver_problem = "not loaded";
  EXPECT_EQ(node_condition(s), (kube::NodeCondition{false, "NoDriver", "waiting for the driver: not loaded"}));
  s = serving();
  s.plan_problems.push_back(
      Problem{Severity::kError, {}, "sharing.mps", "MPS shares whole GPUs only", "disable MIG mode"});
  EXPECT_FALSE(node_condition(s).ready);
  EXPECT_EQ(node_condition(s).reason, "ConfigRefused");
}

// Promise: api-server/condition: The condition stays `True` on the last good configuration.
TEST(TrancheReady, StaysTrueOnTheLastGoodConfigurationAndSaysSo) {
  auto s = serving();
  s.config.last_good = true;
  s.config.path = "c.yaml";
  const auto condition = node_condition(s);
  EXPECT_TRUE(condition.ready);
  EXPECT_EQ(condition.reason, "ConfigRefused");
  EXPECT_THAT(condition.message, HasSubstr("c.yaml cannot be used, the last good one stays in effect"));
}

// Promise: api-server/condition: The condition is `False` only when every pool is down.
TEST(TrancheReady, IsFalseOnlyWhenEveryPoolIsDown) {
  auto s = serving();
  s.faults.pools["gpu-b"] = "no daemon";
  EXPECT_EQ(node_condition(s), (kube::NodeCondition{true, "PoolDown", "MPS pool gpu-b: no daemon"}));
  s.faults.pools["gpu-a"] = "no daemon";
  EXPECT_FALSE(node_condition(s).ready);
}

// Promise: observe: The node agent is not ready while `tranche mps` does not answer and no slot is healthy.
TEST(TrancheReady, IsFalseWhileTrancheMpsDoesNotAnswerAndNoSlotIsHealthy) {
  auto s = serving();
  const auto serve = [&s](const std::string& resource, bool healthy) {
    s.advertised.push_back({resource, {{resource + "::0", healthy, {}}}});
    auto& plugin = s.plugins.emplace_back();
    plugin.resource = resource;
    plugin.serving = plugin.registered = true;
  };
  serve("nvidia.com/gpu", false);
  s.pools.problem = "it hangs";
  EXPECT_EQ(node_condition(s),
            (kube::NodeCondition{false, "PoolDown", "no slot is healthy: tranche mps does not answer: it hangs"}));
  serve("nvidia.com/gpu.whole", true);
  EXPECT_TRUE(node_condition(s).ready) << "a GPU without MPS serves";
  s.advertised.pop_back();
  s.pools.connected = true;
  EXPECT_TRUE(node_condition(s).ready) << "tranche mps itself reports why its pools do not serve";
}

TEST(TrancheReady, SaysWhatAChangeWaitsFor) {
  auto s = serving();
  s.change.push_back({grants::What::kSharingMode, "", {"GPU-a"}, "GPU 0: time-slicing → MPS", "1 slot is held"});
  const auto condition = node_condition(s);
  EXPECT_TRUE(condition.ready);
  EXPECT_EQ(condition.reason, "Waiting");
  EXPECT_THAT(condition.message, HasSubstr("GPU 0: time-slicing → MPS (waits: 1 slot is held)"));
}

}  // namespace node_condition_test
}  // namespace tranche::node
