#include "node/observe/tenant_metrics.h"

#include <gmock/gmock.h>

#include "node/grants/holders_fixture.h"

namespace tranche::node {
namespace tenant_metrics_test {

using namespace fixture;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

Snapshot held_by_a_pod() {
  return limited(fixture::held_by_a_pod("team", "a"), mib(5000), Percent{1250});
}

constexpr const char* kLabels = R"({namespace="team",pod="a",container="main",gpu="GPU-0",resource="nvidia.com/gpu"})";

TEST(TenantMetrics, OneRowForAContainerAndDeviceWhateverItsSlots) {
  guard::Figures figures;
  auto& figure = figures[{grants::grant_id(kSlots), "GPU-0"}];
  figure.used = mib(100);
  figure.clients = 2;
  figure.stops[guard::kStopForMemory] = 3;
  const auto text = tenant_metrics(held_by_a_pod(), figures, MonoTime{}).str();
  const std::string labels = kLabels;
  EXPECT_THAT(text, HasSubstr("tranche_tenant_slots" + labels + " 2\n"));
  EXPECT_THAT(text, HasSubstr("tranche_tenant_memory_limit_bytes" + labels + " 5242880000\n"));
  EXPECT_THAT(text, HasSubstr("tranche_tenant_sm_limit_ratio" + labels + " 0.125\n"));
  EXPECT_THAT(text, HasSubstr("tranche_tenant_memory_used_bytes" + labels + " 104857600\n"));
  EXPECT_THAT(text, HasSubstr("tranche_tenant_clients" + labels + " 2\n"));
  EXPECT_THAT(text, HasSubstr("tranche_tenant_over_limit_seconds_total" + labels + " 0\n"));
  EXPECT_THAT(text, HasSubstr(R"(resource="nvidia.com/gpu",reason="memory-limit"} 3)"));
  EXPECT_THAT(text, HasSubstr(R"(resource="nvidia.com/gpu",reason="outside-mps"} 0)"));
  EXPECT_THAT(text, Not(HasSubstr("memory_peak"))) << "not known";
}

TEST(TenantMetrics, WhatTheGuardDoesNotSeeIsAbsent) {
  auto snapshot = held_by_a_pod();
  snapshot.shares = {};
  snapshot.plan.resources[0].devices[0].pool.clear();  // time-slicing
  snapshot.holders = holders(snapshot, {});
  const auto text = tenant_metrics(snapshot, {}, MonoTime{}).str();
  EXPECT_THAT(text, HasSubstr("tranche_tenant_slots"));
  EXPECT_THAT(text, Not(HasSubstr("memory")));
  EXPECT_THAT(text, Not(HasSubstr("stops")));
}

TEST(TenantMetrics, TwoResourcesOfOneContainerOnADeviceAreOneRow) {
  auto snapshot = held_by_a_pod();
  const std::vector<std::string> more{"GPU-0::2"};
  snapshot.holdings = {{"team", "a", "main", "nvidia.com/gpu", kSlots}, {"team", "a", "main", "nvidia.com/gpu", more}};
  snapshot.shares.own()[{grants::grant_id(more), "GPU-0"}] = {"gpu-0", "nvidia.com/gpu", mib(2500), Percent{625}};
  grants::join_grants(snapshot.shares.own(),
                      {{"team/a/main", grants::grant_id(kSlots)}, {"team/a/main", grants::grant_id(more)}});
  snapshot.holders = holders(snapshot, {});
  const auto rows = tenant_rows(snapshot, {});
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows.begin()->second.slots, 3u);
  EXPECT_EQ(rows.begin()->second.memory_limit, mib(7500));
}

TEST(TenantMetrics, NothingIsSaidOfAGrantThatNoPodHolds) {
  auto snapshot = held_by_a_pod();
  snapshot.holders = {};
  guard::Figures figures;
  figures[{grants::grant_id(kSlots), "GPU-0"}].used = mib(100);
  EXPECT_EQ(tenant_metrics(snapshot, figures, MonoTime{}).str(), "");
}

}  // namespace tenant_metrics_test
}  // namespace tranche::node
