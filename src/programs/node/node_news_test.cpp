#include "programs/node/node_news.h"

#include <gmock/gmock.h>

namespace tranche::agent {
namespace node_news_test {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using What = health::Change::What;

health::Change change(What what, health::Cause cause) {
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

PoolReports reports(const std::string& state) {
  PoolReports all;
  all.connected = true;
  PoolReport& pool = all.pools["p"];
  pool.id = "p";
  pool.state = state;
  pool.reason = state == "serving" ? "" : "it ended";
  return all;
}

TEST(NodeNews, ADeviceThatFallsAndRecoversIsToldByNameCauseAndReason) {
  const auto news =
      news_of_health({change(What::kFell, health::Cause::kXid), change(What::kRecovered, health::Cause::kXid)});
  ASSERT_EQ(news.size(), 2u);
  EXPECT_EQ(news[0].reason, &kube::kGpuUnhealthy);
  EXPECT_THAT(news[0].message, AllOf(HasSubstr("GPU-1"), HasSubstr("xid"), HasSubstr("fell off the bus")));
  EXPECT_EQ(news[1].reason, &kube::kGpuHealthy);
  EXPECT_THAT(news[1].message, HasSubstr("after 12 s"));
}

TEST(NodeNews, ADeviceWhosePoolIsDownIsThePoolsNews) {
  EXPECT_THAT(news_of_health({change(What::kFell, health::Cause::kPool)}), IsEmpty());
}

TEST(NodeNews, APoolIsToldDownOnceItHasServedAndServingOnceItWasDown) {
  PoolNews pools;
  const auto plan = plan_with({"p"});
  EXPECT_THAT(pools.update(plan, reports("starting")), IsEmpty()) << "a start is no news";
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

TEST(NodeNews, APoolIsDownToNobodyWhenItIsNoLongerPlanned) {
  PoolNews pools;
  pools.update(plan_with({"p"}), reports("serving"));
  EXPECT_THAT(pools.update(plan_with({}), reports("stopping")), IsEmpty());
  EXPECT_THAT(pools.update(plan_with({"p"}), reports("starting")), IsEmpty());
}

TEST(NodeNews, WithoutTrancheMpsEveryPoolThatServedIsDown) {
  PoolNews pools;
  pools.update(plan_with({"p"}), reports("serving"));
  EXPECT_EQ(pools.update(plan_with({"p"}), PoolReports{}).size(), 1u);
}

TEST(NodeNews, AConfigurationIsAppliedOrRefusedWithItsFirstFault) {
  ConfigView view;
  view.path = "/etc/c.yaml";
  EXPECT_EQ(news_of_config(view).reason, &kube::kConfigApplied);
  view.last_good = true;
  view.problems = {{Severity::kWarning, {"/etc/c.yaml", 1, 1}, "a", "is odd", "x"},
                   {Severity::kError, {"/etc/c.yaml", 4, 7}, "b", "must be a number", "write 4"}};
  const auto news = news_of_config(view);
  EXPECT_EQ(news.reason, &kube::kConfigRefused);
  EXPECT_THAT(news.message, HasSubstr("/etc/c.yaml:4:7"));
}

}  // namespace node_news_test
}  // namespace tranche::agent
