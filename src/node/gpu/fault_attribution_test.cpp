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

Holder held(const std::string& grant, const std::string& pod) {
  Holder holder;
  holder.pod_namespace = "default";
  holder.pod = pod;
  holder.container = "main";
  holder.grant = grant;
  return holder;
}

FaultParty party(pid_t pid, const std::string& grant, const std::string& pod) {
  return {pid, grant, "default/" + pod + "/main", kube::ObjectRef::pod("default", pod, "")};
}

mps::PoolFault fatal(std::int64_t at, pid_t culprit, std::vector<pid_t> victims) {
  return {.at_ms = at, .kind = "fatal", .culprit = culprit, .victims = std::move(victims)};
}

// Promise: status: Faults name the pods of processes that have ended.
TEST(FaultAttribution, NamesThePodsOfProcessesThatHaveEnded) {
  FaultAttribution attribution;
  const MonoTime now{};
  attribution.update(with({}), {}, MonoTime{});
  attribution.processes({{7, "g1"}, {8, "g2"}}, {held("g1", "trainer"), held("g2", "neighbour")}, now);
  attribution.processes({}, {}, now + std::chrono::seconds(5));  // both processes have ended, and so have their pods
  const auto reported = attribution.update(with({fatal(1, 7, {8, 12})}), {}, now);
  ASSERT_THAT(reported, SizeIs(1));
  EXPECT_EQ(reported[0].culprit, party(7, "g1", "trainer"));
  EXPECT_EQ(reported[0].victims, (std::vector<FaultParty>{party(8, "g2", "neighbour"), {12, "", ""}}));
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
  attribution.update(with({}), {}, MonoTime{});
  auto fault = fatal(1, 7, {});
  fault.grants = {{7, "g1"}};
  const auto reported = attribution.update(with({fault}), {held("g1", "short")}, MonoTime{});
  ASSERT_THAT(reported, SizeIs(1));
  EXPECT_EQ(reported[0].culprit, party(7, "g1", "short"));
}

TEST(FaultAttribution, ReportsEachFaultOnceAndNoneFromBeforeItsTime) {
  FaultAttribution attribution;
  EXPECT_THAT(attribution.update(with({fatal(1, 7, {})}), {}, MonoTime{}), IsEmpty()) << "from before our start";
  EXPECT_THAT(attribution.last(), SizeIs(1)) << "and shown";
  EXPECT_THAT(attribution.update(with({fatal(1, 7, {}), fatal(2, 7, {})}), {}, MonoTime{}), SizeIs(1));
  EXPECT_THAT(attribution.update(mps::PoolReports{}, {}, MonoTime{}), IsEmpty()) << "tranche mps does not answer";
  EXPECT_THAT(attribution.update(with({fatal(1, 7, {}), fatal(2, 7, {})}), {}, MonoTime{}), IsEmpty());
  EXPECT_THAT(attribution.last(), SizeIs(2));
}

TEST(FaultAttribution, NeverNamesAnotherPodThatHasTheSameSlotsBeforeOrAfter) {
  FaultAttribution attribution;
  const MonoTime now{};
  attribution.update(with({}), {}, now);
  attribution.processes({{7, "g1"}}, {held("g1", "former")}, now);
  attribution.processes({{7, "g1"}, {8, "g1"}}, {},
                        now);  // the same grant for another pod: kubelet has not named it yet
  EXPECT_EQ(attribution.update(with({fatal(1, 8, {7})}), {}, now).at(0).culprit, (FaultParty{8, "g1", ""}));
  attribution.processes({{7, "g1"}, {8, "g1"}}, {held("g1", "latter")}, now);
  const auto reported = attribution.update(with({fatal(2, 8, {7})}), {}, now);
  ASSERT_THAT(reported, SizeIs(1));
  EXPECT_EQ(reported[0].culprit.holder, "default/latter/main");
  EXPECT_EQ(reported[0].victims.at(0).holder, "default/former/main");
}

TEST(FaultAttribution, ForgetsWhoAProcessWasInTime) {
  FaultAttribution attribution;
  attribution.update(with({}), {}, MonoTime{});
  attribution.processes({{7, "g1"}}, {}, MonoTime{});
  attribution.processes({}, {}, MonoTime{} + FaultAttribution::kRemembered + std::chrono::seconds(1));
  const auto reported = attribution.update(with({fatal(1, 7, {})}), {}, MonoTime{});
  ASSERT_THAT(reported, SizeIs(1));
  EXPECT_EQ(reported[0].culprit.grant, "") << "the number may be another process' by now";
}

TEST(FaultAttribution, KeepsAFewAndSaysWhenNobodyElseWasHit) {
  FaultAttribution attribution;
  attribution.update(with({}), {}, MonoTime{});
  std::vector<mps::PoolFault> many;
  for (pid_t i = 0; i < 40; ++i) many.push_back({.at_ms = i, .kind = "unclean-exit", .culprit = i, .victims = {}});
  const auto reported = attribution.update(with(many), {}, MonoTime{});
  EXPECT_THAT(reported, SizeIs(40));
  EXPECT_THAT(attribution.last(), SizeIs(FaultAttribution::kKept));
  EXPECT_EQ(attribution.last().back().at_ms, 39);
  EXPECT_THAT(culprit_text(reported[3]), HasSubstr("process 3 ended without leaving MPS"));
  EXPECT_THAT(culprit_text(reported[3]), HasSubstr("no other client was hit"));
}

}  // namespace fault_attribution_test
}  // namespace tranche::node
