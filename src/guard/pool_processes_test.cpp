#include "guard/judge.h"

#include <gmock/gmock.h>

namespace tranche::guard {
namespace pool_processes_test {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

TEST(PoolProcesses, HoldThePoolsOwnProcessesClientsAndEndpoints) {
  const auto reports = mps::parse_pool_reports(
      R"({"pid":3,"pools":[{"id":"gpu-1","state":"serving","daemonPid":11,"servers":[{"pid":12}],"proof":{"pid":13},
          "endpoints":[{"grant":"a","clients":[101,102,0,-1,99999999999],"dead":[104]},
                   {"grant":"b","clients":[103]}]},
          {"id":"gpu-2","state":"absent"}]})");
  ASSERT_TRUE(reports);
  const auto pools = pool_processes(*reports);
  ASSERT_EQ(pools.size(), 2u);
  const PoolProcesses& pool = pools.at("gpu-1");
  EXPECT_EQ(pool.state, "serving");
  EXPECT_THAT(pool.own, ElementsAre(3, 11, 12, 13));
  EXPECT_THAT(pool.grant_of, ElementsAre(Pair(101, "a"), Pair(102, "a"), Pair(103, "b")));
  EXPECT_THAT(pool.dead, ElementsAre(Pair(104, "a")));
  EXPECT_TRUE(pool.has_endpoints);
  EXPECT_THAT(pools.at("gpu-2").own, ElementsAre(3));
  EXPECT_THAT(pool_processes({}), IsEmpty());
}

}  // namespace pool_processes_test
}  // namespace tranche::guard
