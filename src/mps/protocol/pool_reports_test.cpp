#include "mps/protocol/pool_reports.h"

#include <gmock/gmock.h>

namespace tranche::mps {
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
  EXPECT_THAT(reports->pools.at("gpu-1").clients, testing::ElementsAre(101, 102));
  EXPECT_EQ(reports->pools.at("gpu-1").restarts, 3u);
}

TEST(Pools, WhatNewerOnesSayIsReadWhereItIsThere) {
  const auto reports = parse_pool_reports(
      R"({"pools":[{"id":"gpu-1","state":"serving","daemon":{"pid":11,"state":"running"},"sharedMemory":{"where":"/dev/shm","mount":true},
      "servers":[{"pid":12,"status":"FAULT","clients":[101]}],"clients":{"live":1,"most":48},"endpoint":"relay",
      "endpoints":[{"grant":"0011223344556677","clients":[101],"protection":[{"pid":101,"protected":"no","why":"w"},{"pid":"x"},3],"refusedWhy":"zz","limitsLifted":3},{"grant":"8899aabbccddeeff","dead":[7,"x"]},{"clients":[9]},3],
      "faults":[{"atMs":5,"kind":"unclean-exit","culprit":7,"victims":[8,"x",9],"server":12,"grants":{"8":"g8","x":"no","9":9}}],
      "faultsTotal":{"fatal":2,"exception":"x"},
      "proof":{"state":"running","reason":"r","ageMs":4,"pid":13,"passed":3,"failed":1,"ended":{"clients":1}}}]})");
  ASSERT_TRUE(reports) << to_string(reports.error());
  const PoolReport& pool = reports->pools.at("gpu-1");
  EXPECT_THAT(pool.servers, testing::ElementsAre(12));
  EXPECT_TRUE(pool.shared_memory);
  EXPECT_EQ(pool.endpoint, "relay");
  EXPECT_THAT(pool.endpoints,
              testing::ElementsAre(EndpointReport{"0011223344556677", {101}, {}, "zz", 3, 0, {}, {{101, "no", "w"}}},
                                   EndpointReport{"8899aabbccddeeff", {}, {}, {}, 0, 0, {}, {}, {7}}));
  EXPECT_THAT(pool.faults, testing::ElementsAre(PoolFault{5, "unclean-exit", 7, {8, 9}, {{8, "g8"}}}));
  EXPECT_EQ(pool.faults_total, (std::map<std::string, std::uint64_t>{{"fatal", 2}}));
  EXPECT_EQ(pool.proof, (PoolProof{"running", "r", 13}));
}

TEST(Pools, TheDescriptorsOfTheKeeperAreRead) {
  EXPECT_EQ(parse_pool_reports(R"({"pools":[],"keeper":{"mostDescriptors":65536}})")->keeper_files, 65536U);
  EXPECT_EQ(parse_pool_reports(R"({"pools":[],"keeper":3})")->keeper_files, 0U);
}

TEST(Pools, PagesThatAreNotServedAreReported) {
  EXPECT_EQ(parse_pool_reports(R"({"pools":[],"pages":{"problem":"taken"}})")->pages_problem, "taken");
  EXPECT_EQ(parse_pool_reports(R"({"pools":[],"pages":[]})")->pages_problem, "");
  EXPECT_EQ(parse_pool_reports(R"({"pools":[],"loop":{"cpuProblem":"light"}})")->cpu_problem, "light");
}

TEST(Pools, LimitsOfAnEndpointAreReadAsAWholeOrNotAtAll) {
  const auto endpoint = [](const std::string& limits) {
    const auto reports = parse_pool_reports(R"({"pools":[{"id":"set-1","state":"serving","endpoints":[{"grant":"g",)"
                                            R"("limits":)" +
                                            limits + "}]}]}");
    return reports ? reports->pools.at("set-1").endpoints[0].limits : std::nullopt;
  };
  EXPECT_THAT(endpoint(R"([{"uuid":"GPU-1","memoryMiB":7188,"threadsHundredths":500}])"),
              testing::Optional(testing::ElementsAre(GrantLimit{"GPU-1", mib(7188), Percent{500}})));
  for (const char* bad : {"[]", "{}", "[1]", R"([{"memoryMiB":1}])", R"([{"uuid":"GPU-1","memoryMiB":-1}])",
                          R"([{"uuid":"GPU-1","threadsHundredths":10001}])"})
    EXPECT_EQ(endpoint(bad), std::nullopt) << bad;
}

TEST(Pools, WhatIsOfAnotherTypeIsAsGoodAsAbsent) {
  const auto reports = parse_pool_reports(
      R"({"pools":[{"id":"gpu-1","state":"serving","daemon":1,"servers":{},"clients":[],"endpoint":{},"endpoints":[1],
      "faults":{"a":1},"faultsTotal":[],"proof":"x","sharedMemory":{"mount":1}}]})");
  ASSERT_TRUE(reports) << to_string(reports.error());
  PoolReport bare;
  bare.id = "gpu-1";
  bare.state = "serving";
  EXPECT_EQ(reports->pools.at("gpu-1"), bare);
}

TEST(Pools, AnAnswerThatIsNotUnderstoodIsNoAnswer) {
  for (const char* text : {"", "[]", "{}", R"({"pools":{}})", R"({"pools":[1]})", R"({"pools":[{"id":"gpu-1"}]})"})
    EXPECT_FALSE(parse_pool_reports(text)) << text;
}

TEST(Pools, OnlyAServingPoolIsHealthy) {
  PoolReports reports;
  reports.connected = true;
  const auto add = [&](const std::string& id, const std::string& state, const std::string& reason) {
    reports.pools[id].id = id;
    reports.pools[id].state = state;
    reports.pools[id].reason = reason;
  };
  add("gpu-1", "serving", "");
  add("gpu-2", "backing-off", "the daemon exited with status 1");
  add("gpu-4", "wedged", "new CUDA programs do not start");
  const auto faults = pool_faults(plan_with_pools({"gpu-1", "gpu-2", "gpu-3", "gpu-4"}), reports);
  EXPECT_EQ(faults.at("gpu-4"), "the MPS pool is wedged: new CUDA programs do not start");
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
}  // namespace tranche::mps
