#include "agent/pools/pools.h"

#include <gmock/gmock.h>

namespace tranche::agent {
namespace {

using ::testing::HasSubstr;

plan::Plan plan_with_pools(std::initializer_list<const char*> ids) {
  plan::Plan plan;
  for (const char* id : ids) {
    plan::PlannedPool pool;
    pool.id = id;
    plan.pools.push_back(pool);
  }
  return plan;
}

TEST(Pools, AnswerIsReadWithItsClients) {
  const auto reports = parse_pool_reports(
      R"({"pools":[{"id":"gpu-1","state":"serving","daemonPid":11,"servers":[{"pid":12,"clients":[101,102]}],"restarts":3}]})");
  ASSERT_TRUE(reports) << to_string(reports.error());
  EXPECT_THAT(reports->at("gpu-1").clients, testing::ElementsAre(101, 102));
  EXPECT_EQ(reports->at("gpu-1").restarts, 3u);
}

TEST(Pools, AnAnswerThatIsNotUnderstoodIsNoAnswer) {
  for (const char* text : {"", "[]", "{}", R"({"pools":{}})", R"({"pools":[1]})", R"({"pools":[{"id":"gpu-1"}]})"})
    EXPECT_FALSE(parse_pool_reports(text)) << text;
}

TEST(Pools, OnlyAServingPoolIsHealthy) {
  PoolReports reports;
  reports.connected = true;
  reports.pools["gpu-1"] = {"gpu-1", "serving", "", 1, {}, 0};
  reports.pools["gpu-2"] = {"gpu-2", "backing-off", "the daemon exited with status 1", 0, {}, 4};
  const auto faults = pool_faults(plan_with_pools({"gpu-1", "gpu-2", "gpu-3"}), reports);
  EXPECT_EQ(faults.count("gpu-1"), 0u);
  EXPECT_THAT(faults.at("gpu-2"), HasSubstr("exited with status 1"));
  EXPECT_THAT(faults.at("gpu-3"), HasSubstr("does not serve this pool"));
}

TEST(Pools, WithoutAConnectionEveryPoolIsFaulty) {
  PoolReports reports;
  reports.problem = "tranche mps is not running (no answer on /x/mps.sock)";
  EXPECT_THAT(pool_faults(plan_with_pools({"gpu-1"}), reports).at("gpu-1"), HasSubstr("/x/mps.sock"));
}

}  // namespace
}  // namespace tranche::agent
