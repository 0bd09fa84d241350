#include "node/decide.h"

#include <gmock/gmock.h>

namespace tranche::node {
namespace node_events_test {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using What = ConditionChange::What;

ConditionChange change(What what, gpu::Cause cause) {
  return {what, "GPU-1", {cause, "XID 79: it fell off the bus"}, 12s};
}

plan::Plan plan_with(const std::vector<std::string>& pools) {
  plan::Plan plan;
  for (const auto& id : pools) {
    plan::PlannedPool pool;
    pool.id = id;
    plan.pools.push_back(pool);
  }
  return plan;
}

mps::PoolReports reports(const std::string& state) {
  mps::PoolReports all;
  all.connected = true;
  mps::PoolReport& pool = all.pools["p"];
  pool.id = "p";
  pool.state = state;
  pool.reason = state == "serving" ? "" : "it ended";
  return all;
}

TEST(NodeEvent, ADeviceThatFallsAndRecoversIsReportedByNameCauseAndReason) {
  const auto events =
      health_events({change(What::kFell, gpu::Cause::kXid), change(What::kRecovered, gpu::Cause::kXid)});
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].reason, &kube::kGpuUnhealthy);
  EXPECT_THAT(events[0].message, AllOf(HasSubstr("GPU-1"), HasSubstr("xid"), HasSubstr("fell off the bus")));
  EXPECT_EQ(events[1].reason, &kube::kGpuHealthy);
  EXPECT_THAT(events[1].message, HasSubstr("after 12 s"));
}

TEST(NodeEvent, ADeviceWhosePoolIsDownIsReportedAsThePools) {
  EXPECT_THAT(health_events({change(What::kFell, gpu::Cause::kPool)}), IsEmpty());
}

TEST(NodeEvent, APoolIsReportedDownOnceItHasServedAndServingOnceItWasDown) {
  PoolEvents pools;
  const auto plan = plan_with({"p"});
  EXPECT_THAT(pools.update(plan, reports("starting")), IsEmpty()) << "a start is no event";
  EXPECT_THAT(pools.update(plan, reports("serving")), IsEmpty());
  const auto down = pools.update(plan, reports("backing-off"));
  ASSERT_EQ(down.size(), 1u);
  EXPECT_EQ(down[0].reason, &kube::kMpsPoolDown);
  EXPECT_THAT(down[0].message, AllOf(HasSubstr("p: "), HasSubstr("backing-off"), HasSubstr("it ended")));
  EXPECT_THAT(pools.update(plan, reports("starting")), IsEmpty()) << "once";
  const auto up = pools.update(plan, reports("serving"));
  ASSERT_EQ(up.size(), 1u);
  EXPECT_EQ(up[0].reason, &kube::kMpsPoolServing);
}

TEST(NodeEvent, APoolIsDownToNobodyWhenItIsNoLongerPlanned) {
  PoolEvents pools;
  pools.update(plan_with({"p"}), reports("serving"));
  EXPECT_THAT(pools.update(plan_with({}), reports("stopping")), IsEmpty());
  EXPECT_THAT(pools.update(plan_with({"p"}), reports("starting")), IsEmpty());
}

TEST(NodeEvent, WithoutTrancheMpsEveryPoolThatServedIsDown) {
  PoolEvents pools;
  pools.update(plan_with({"p"}), reports("serving"));
  EXPECT_EQ(pools.update(plan_with({"p"}), mps::PoolReports{}).size(), 1u);
}

TEST(NodeEvent, AConfigurationIsAppliedOrRefusedWithItsFirstFault) {
  config::ConfigView view;
  view.path = "/etc/c.yaml";
  EXPECT_EQ(config_event(view).reason, &kube::kConfigApplied);
  view.last_good = true;
  view.problems = {{Severity::kWarning, {"/etc/c.yaml", 1, 1}, "a", "is odd", "x"},
                   {Severity::kError, {"/etc/c.yaml", 4, 7}, "b", "must be a number", "write 4"}};
  const auto events = config_event(view);
  EXPECT_EQ(events.reason, &kube::kConfigRefused);
  EXPECT_THAT(events.message, HasSubstr("/etc/c.yaml:4:7"));
}

}  // namespace node_events_test
}  // namespace tranche::node
