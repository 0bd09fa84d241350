#include "node/gpu/fault_attribution.h"

#include <gmock/gmock.h>

namespace tranche::node {
namespace fault_attribution_test {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

mps::PoolReports with(std::vector<mps::PoolFault> faults) {
  mps::PoolReports reports;
  reports.connected = true;
  mps::PoolReport pool;
  pool.id = "gpu-1";
  pool.faults = std::move(faults);
  reports.pools["gpu-1"] = pool;
  return reports;
}

mps::PoolFault fatal(std::int64_t at, pid_t culprit, std::vector<pid_t> victims) {
  return {.at_ms = at, .kind = "fatal", .culprit = culprit, .victims = std::move(victims)};
}

// Promise: status: Faults name the pods of processes that have ended.
TEST(FaultAttribution, NamesThePodsOfProcessesThatHaveEnded) {
  FaultAttribution attribution;
  const MonoTime now{};
  attribution.update(with({}), MonoTime{});
  attribution.processes({{7, "g1"}, {8, "g2"}}, now);
  attribution.holders({{"g1", "default/trainer/main"}, {"g2", "default/neighbour/main"}});
  attribution.processes({}, now + std::chrono::seconds(5));  // both processes have ended
  attribution.holders({});                                   // and so have their pods
  const auto reported = attribution.update(with({fatal(1, 7, {8, 12})}), now);
  ASSERT_THAT(reported, SizeIs(1));
  EXPECT_EQ(reported[0].culprit, (FaultParty{7, "g1", "default/trainer/main"}));
  EXPECT_EQ(reported[0].victims, (std::vector<FaultParty>{{8, "g2", "default/neighbour/main"}, {12, "", ""}}));
  EXPECT_THAT(culprit_text(reported[0]), HasSubstr("MPS names process 7 of default/trainer/main as the cause"));
  EXPECT_THAT(culprit_text(reported[0]), HasSubstr("or that ended some seconds before, may be the cause as well"))
      << "measured: MPS can be wrong";
  EXPECT_THAT(culprit_text(reported[0]), HasSubstr("2 clients of the same GPU ended with it"));
  EXPECT_THAT(
      victim_text(reported[0]),
      HasSubstr(
          "MPS names process 7 of default/trainer/main as the cause, and is not always right; it can start again"));
}

TEST(FaultAttribution, NamesThePodOfAProcessThatOnlyTheReportKnows) {
  FaultAttribution attribution;
  attribution.update(with({}), MonoTime{});
  attribution.holders({{"g1", "default/short/main"}});
  auto fault = fatal(1, 7, {});
  fault.grants = {{7, "g1"}};
  const auto reported = attribution.update(with({fault}), MonoTime{});
  ASSERT_THAT(reported, SizeIs(1));
  EXPECT_EQ(reported[0].culprit, (FaultParty{7, "g1", "default/short/main"}));
}

TEST(FaultAttribution, ReportsEachFaultOnceAndNoneFromBeforeItsTime) {
  FaultAttribution attribution;
  EXPECT_THAT(attribution.update(with({fatal(1, 7, {})}), MonoTime{}), IsEmpty()) << "from before our start";
  EXPECT_THAT(attribution.last(), SizeIs(1)) << "and shown";
  EXPECT_THAT(attribution.update(with({fatal(1, 7, {}), fatal(2, 7, {})}), MonoTime{}), SizeIs(1));
  EXPECT_THAT(attribution.update(mps::PoolReports{}, MonoTime{}), IsEmpty()) << "tranche mps does not answer";
  EXPECT_THAT(attribution.update(with({fatal(1, 7, {}), fatal(2, 7, {})}), MonoTime{}), IsEmpty());
  EXPECT_THAT(attribution.last(), SizeIs(2));
}

TEST(FaultAttribution, NeverNamesThePodThatHadTheSameSlotsBefore) {
  FaultAttribution attribution;
  const MonoTime now{};
  attribution.update(with({}), now);
  attribution.holders({{"g1", "default/former/main"}});
  attribution.given("g1");  // the same slots, so the same grant, for another pod
  attribution.processes({{7, "g1"}}, now);
  EXPECT_THAT(attribution.update(with({fatal(1, 7, {})}), now), IsEmpty()) << "kubelet has not said yet whose it is";
  EXPECT_TRUE(attribution.waiting());
  EXPECT_THAT(attribution.settled(now + FaultAttribution::kPatience - std::chrono::milliseconds(1)), IsEmpty());
  attribution.holders({{"g1", "default/latter/main"}});
  const auto reported = attribution.settled(now + std::chrono::milliseconds(400));
  ASSERT_THAT(reported, SizeIs(1));
  EXPECT_EQ(reported[0].culprit.holder, "default/latter/main");
  EXPECT_FALSE(attribution.waiting());
  EXPECT_THAT(attribution.last(), SizeIs(1));
}

TEST(FaultAttribution, ReportsWithoutANameWhenKubeletDoesNotSayInTime) {
  FaultAttribution attribution;
  const MonoTime now{};
  attribution.update(with({}), now);
  attribution.given("g1");
  attribution.processes({{7, "g1"}}, now);
  attribution.update(with({fatal(1, 7, {})}), now);
  const auto reported = attribution.settled(now + FaultAttribution::kPatience);
  ASSERT_THAT(reported, SizeIs(1));
  EXPECT_EQ(reported[0].culprit, (FaultParty{7, "g1", ""}));
}

TEST(FaultAttribution, ForgetsWhoAProcessWasInTime) {
  FaultAttribution attribution;
  attribution.update(with({}), MonoTime{});
  attribution.processes({{7, "g1"}}, MonoTime{});
  attribution.processes({}, MonoTime{} + FaultAttribution::kRemembered + std::chrono::seconds(1));
  const auto reported = attribution.update(with({fatal(1, 7, {})}), MonoTime{});
  ASSERT_THAT(reported, SizeIs(1));
  EXPECT_EQ(reported[0].culprit.grant, "") << "the number may be another process' by now";
}

TEST(FaultAttribution, KeepsAFewAndSaysWhenNobodyElseWasHit) {
  FaultAttribution attribution;
  attribution.update(with({}), MonoTime{});
  std::vector<mps::PoolFault> many;
  for (pid_t i = 0; i < 40; ++i) many.push_back({.at_ms = i, .kind = "unclean-exit", .culprit = i, .victims = {}});
  const auto reported = attribution.update(with(many), MonoTime{});
  EXPECT_THAT(reported, SizeIs(40));
  EXPECT_THAT(attribution.last(), SizeIs(FaultAttribution::kKept));
  EXPECT_EQ(attribution.last().back().at_ms, 39);
  EXPECT_THAT(culprit_text(reported[3]), HasSubstr("process 3 ended without leaving MPS"));
  EXPECT_THAT(culprit_text(reported[3]), HasSubstr("no other client was hit"));
}

}  // namespace fault_attribution_test
}  // namespace tranche::node
