#include "programs/mps/mps_status.h"

#include <gmock/gmock.h>

namespace tranche::programs {
namespace mps_readiness_test {

using ::testing::HasSubstr;

MpsReadiness of(std::vector<PoolReadiness> pools) {
  return mps_readiness({.driver_problem = "", .plan_problems = {}, .pools = std::move(pools)});
}

TEST(MpsReadiness, ANodeThatSharesNothingByMpsHasNothingToWaitFor) {
  EXPECT_TRUE(of({}).ready);
  EXPECT_EQ(of({}).reason, "nothing is shared by MPS");
}

TEST(MpsReadiness, WaitsForEveryPoolThatBeginsForTheFirstTime) {
  const PoolReadiness good{.id = "gpu-1", .state = "serving", .reason = ""};
  const auto early = of({good, {.id = "gpu-2", .state = "starting", .begins = true, .reason = ""}});
  EXPECT_FALSE(early.ready);
  EXPECT_EQ(early.reason, "1 of 2 pools serve; gpu-2 is starting");
  EXPECT_TRUE(of({good, {.id = "gpu-2", .state = "serving", .reason = ""}}).ready);
}

// Promise: status: Readiness of `tranche mps` names the one broken pool.
TEST(MpsReadiness, OneBrokenPoolAmongOthersIsNamedAndNoMore) {
  const auto broken = of({{.id = "gpu-1", .state = "serving", .reason = ""},
                          {.id = "gpu-2", .state = "given-up", .reason = "it ended 5 times"}});
  EXPECT_TRUE(broken.ready);
  EXPECT_EQ(broken.reason, "1 of 2 pools serve; gpu-2 is given-up: it ended 5 times");
}

TEST(MpsReadiness, WhereNoPoolServesTheNodeIsNotReady) {
  const auto none = of({{.id = "gpu-1", .state = "backing-off", .reason = "no such program"}});
  EXPECT_FALSE(none.ready);
  EXPECT_EQ(none.reason, "0 of 1 pool serves; gpu-1 is backing-off: no such program");
}

TEST(MpsReadiness, ADriverThatIsMissingIsWaitedForUnlessTheConfigurationAllowsItsAbsence) {
  MpsReadinessInputs inputs{.driver_problem = "no libnvidia-ml.so.1", .plan_problems = {}, .pools = {}};
  EXPECT_FALSE(mps_readiness(inputs).ready);
  EXPECT_THAT(mps_readiness(inputs).reason, HasSubstr("no libnvidia-ml.so.1"));
  inputs.needs_driver = false;
  EXPECT_TRUE(mps_readiness(inputs).ready);
}

TEST(MpsReadiness, APlanThatCannotBeMadeAndAnEndAreSaid) {
  const Problem many{.place = {}, .path = "sharing.mps", .what = "too many replicas", .remedy = ""};
  MpsReadinessInputs inputs{.driver_problem = "", .plan_problems = {many}, .pools = {}};
  EXPECT_THAT(mps_readiness(inputs).reason, HasSubstr("too many replicas"));
  EXPECT_FALSE(mps_readiness(inputs).ready);
  inputs.ends = true;
  EXPECT_EQ(mps_readiness(inputs).reason, "it is ending");
}

}  // namespace mps_readiness_test
}  // namespace tranche::programs
