#include "node/grants/lifted_limits.h"

#include <gmock/gmock.h>

namespace tranche::agent {
namespace lifted_limits_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr const char* kGrant = "0011223344556677";
constexpr const char* kHolder = "default/a/main";

PoolReports refused(std::uint64_t times, const std::string& why = "zz lifts it", bool has_endpoint = true) {
  PoolReports reports{.connected = true, .problem = "", .pages_problem = "", .cpu_problem = "", .pools = {}};
  PoolReport& pool = reports.pools["gpu-1"];
  if (has_endpoint)
    pool.endpoints = {{.grant = kGrant, .clients = {}, .reason = "", .refused_why = why, .limits_lifted = times}};
  return reports;
}

class LiftedLimitsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    lifted_.pools(refused(0, ""));
    lifted_.holders({{kGrant, kHolder}});
  }
  std::vector<LiftedLimit> after(const PoolReports& reports) {
    lifted_.pools(reports);
    return lifted_.unreported();
  }
  LiftedLimits lifted_;
};

TEST_F(LiftedLimitsTest, AContainerHearsOnceOfEachValue) {
  EXPECT_THAT(after(refused(1)), ElementsAre(LiftedLimit{kHolder, kGrant, "zz lifts it"}));
  EXPECT_THAT(after(refused(1)), IsEmpty());
  EXPECT_THAT(after(refused(7)), IsEmpty()) << "it tries again";
  EXPECT_THAT(after(refused(8, "0=0 lifts it")), ElementsAre(LiftedLimit{kHolder, kGrant, "0=0 lifts it"}));
}

TEST_F(LiftedLimitsTest, WhatIsRefusedForOtherReasonsIsNotReported) {
  EXPECT_THAT(after(refused(0, "its container is being stopped")), IsEmpty());
}

TEST_F(LiftedLimitsTest, TheReportWaitsForKubeletToNameTheHolderOfTheGrant) {
  lifted_.given(kGrant);
  EXPECT_THAT(after(refused(1)), IsEmpty()) << "not for whoever had it before";
  lifted_.holders({{kGrant, "default/b/main"}});
  EXPECT_THAT(lifted_.unreported(), ElementsAre(LiftedLimit{"default/b/main", kGrant, "zz lifts it"}));
}

TEST_F(LiftedLimitsTest, OfAFormerHoldersProcessesTheNextHearsNothing) {
  lifted_.holders({});
  EXPECT_THAT(after(refused(1)), IsEmpty());
  lifted_.given(kGrant);
  lifted_.holders({{kGrant, "default/b/main"}});
  EXPECT_THAT(lifted_.unreported(), IsEmpty());
}

TEST_F(LiftedLimitsTest, TheNextHolderGetsTheSameReportAgain) {
  EXPECT_EQ(after(refused(1)).size(), 1u);
  lifted_.holders({{kGrant, "default/b/main"}});
  EXPECT_THAT(after(refused(2)), ElementsAre(LiftedLimit{"default/b/main", kGrant, "zz lifts it"}));
}

TEST_F(LiftedLimitsTest, ARestartOfTrancheMpsCountsFromNothing) {
  EXPECT_EQ(after(refused(5)).size(), 1u);
  EXPECT_THAT(after(refused(0, "")), IsEmpty());
  EXPECT_THAT(after(refused(1, "= lifts it")), ElementsAre(LiftedLimit{kHolder, kGrant, "= lifts it"}));
  PoolReports gone;
  EXPECT_THAT(after(gone), IsEmpty()) << "tranche mps does not answer";
  EXPECT_THAT(after(refused(1, "= lifts it")), IsEmpty()) << "the same as before";
}

TEST_F(LiftedLimitsTest, AnEndpointThatIsGoneIsForgotten) {
  lifted_.holders({});
  EXPECT_THAT(after(refused(1)), IsEmpty());
  EXPECT_THAT(after(refused(0, "", false)), IsEmpty());
  lifted_.holders({{kGrant, kHolder}});
  EXPECT_THAT(lifted_.unreported(), IsEmpty());
}

TEST(LiftedLimitsFirst, WhatHappenedBeforeOurTimeWasReportedThen) {
  LiftedLimits lifted;
  lifted.holders({{kGrant, kHolder}});
  lifted.pools(refused(3));
  EXPECT_THAT(lifted.unreported(), IsEmpty());
  lifted.pools(refused(4));
  EXPECT_EQ(lifted.unreported().size(), 1u);
}

}  // namespace lifted_limits_test
}  // namespace tranche::agent
