#include "plan/make_plan_fixture.h"

#include <gmock/gmock.h>

#include "make.h"
#include "plan/plan_steps.h"

namespace tranche::plan {
namespace make_plan_test {

using config::Config;
using config::SharingStrategy;
using gpu::Gpu;
using gpu::Inventory;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

using fixture::plan_of;
using fixture::problems_of;
using make::add_mig;
using make::gpus;

Config shared(SharingStrategy strategy, std::uint32_t replicas, bool rename = false) {
  Config config = make::shared(strategy, replicas);
  config.sharing.rename_by_default = rename;
  config.sharing.fail_requests_greater_than_one = strategy == SharingStrategy::kMps;
  config.sharing.resources[0].place = {"c.yaml", 6, 7};
  if (rename) config.sharing.resources[0].rename = "nvidia.com/gpu.shared";
  return config;
}

// Promise: kubelet/stream: More slots of a resource than fit into kubelet's list are refused with what fits.
TEST(Plan, MoreSlotsOfAResourceThanKubeletsListHoldsAreRefused) {
  EXPECT_THAT(problems_of(shared(SharingStrategy::kTimeSlicing, 16384), gpus(8)),
              ElementsAre("c.yaml:6:7: error: sharing.timeSlicing.resources[0].replicas: makes 131072 slots of "
                          "nvidia.com/gpu, and kubelet receives them in one list of at most 4194304 bytes, which has "
                          "room for 59074; write replicas: 7384 or less"));
  EXPECT_THAT(problems_of(shared(SharingStrategy::kTimeSlicing, 65535), gpus(1)), SizeIs(1));
  EXPECT_THAT(problems_of(shared(SharingStrategy::kTimeSlicing, 7384), gpus(8)), IsEmpty());
  EXPECT_THAT(problems_of(shared(SharingStrategy::kMps, 65535), gpus(1)), Not(Contains(HasSubstr("in one list"))))
      << "MPS serves fewer";
}

TEST(Plan, EachResourceOfAnEntryHasAListOfItsOwn) {
  Config config = shared(SharingStrategy::kTimeSlicing, 16384);
  config.sharing.resources[0].names = "nvidia.com/gpu%d";
  EXPECT_THAT(problems_of(config, gpus(8)), IsEmpty());
}

// Promise: discovery: A renamed resource leaves zero under the old name.
TEST(Plan, RenamedResourceLeavesZeroUnderTheOldName) {
  const Plan plan = plan_of(shared(SharingStrategy::kMps, 4, true), gpus(2));
  ASSERT_THAT(plan.resources, SizeIs(2));
  EXPECT_EQ(plan.resources[0].name, "nvidia.com/gpu");
  EXPECT_THAT(plan.resources[0].devices, IsEmpty());
  EXPECT_EQ(plan.resources[1].name, "nvidia.com/gpu.shared");
  EXPECT_EQ(plan.resources[1].original_name, "nvidia.com/gpu");
  EXPECT_THAT(plan.resources[1].devices, SizeIs(2));
}

TEST(Plan, SeveralSlotsInOneGrantOpenThePoolLimitAndSaySo) {
  Config config = shared(SharingStrategy::kMps, 4);
  config.sharing.fail_requests_greater_than_one = false;
  const Plan plan = plan_of(config, gpus(1));
  EXPECT_EQ(plan.pools[0].limits[0].client, (ShareLimits{mib(143771), Percent::whole(100), 132}));
  EXPECT_EQ(plan.resources[0].devices[0].share.memory, mib(35942));
  EXPECT_THAT(plan.notes, Contains(HasSubstr("the MPS server applies the limits of its grant")));
  config.sharing.endpoint = config::EndpointPolicy::kLink;
  EXPECT_THAT(plan_of(config, gpus(1)).notes, Contains(HasSubstr("set in its environment")));
}

TEST(Plan, SaysWhenMemoryIsUnknown) {
  Inventory unknown = gpus(1);
  unknown.gpus[0].memory = {};
  const Plan plan = plan_of(shared(SharingStrategy::kMps, 4), unknown);
  EXPECT_THAT(plan.notes, Contains(HasSubstr("memory is not limited")));
  EXPECT_EQ(plan.pools[0].limits[0].client.memory, Bytes{});
}

TEST(Plan, SaysThatAHopperOfAnotherSizeHasNotBeenMeasured) {
  Inventory inventory = gpus(1);
  EXPECT_THAT(plan_of(shared(SharingStrategy::kMps, 5), inventory).notes,
              Not(Contains(HasSubstr("not been measured"))));
  inventory.gpus[0].sm_count = 114;
  EXPECT_THAT(plan_of(shared(SharingStrategy::kMps, 5), inventory).notes,
              Contains(HasSubstr("has not been measured: run gemm-check")));
}

// Promise: plan/mig: `none` advertises whole GPUs and notes what that means.
TEST(PlanMig, NoneAdvertisesGpusWholeAndSaysWhatThatMeans) {
  Inventory inventory = gpus(4);
  for (Gpu& gpu : inventory.gpus) gpu.mig_enabled = gpu.index != 1;
  const Plan plan = plan_of({}, inventory);
  EXPECT_THAT(plan.resources[0].devices, SizeIs(4));
  EXPECT_THAT(plan.notes, ElementsAre(HasSubstr("GPUs 0 and 2-3: MIG mode is enabled")));
}

TEST(PlanMig, SingleWithoutMigIsLikeNone) {
  Config config;
  config.flags.mig_strategy = config::MigStrategy::kSingle;
  EXPECT_EQ(plan_of(config, gpus(2)), plan_of({}, gpus(2)));
}

// Promise: plan/mig: `single` gives MIG devices the name of GPUs and refuses mixed layouts.
TEST(PlanMig, SingleRefusesWhatIsNotUniform) {
  Config config;
  config.flags.mig_strategy = config::MigStrategy::kSingle;
  Inventory empty = gpus(1);
  empty.gpus[0].mig_enabled = true;
  EXPECT_THAT(problems_of(config, empty), ElementsAre(HasSubstr("GPU 0 has MIG mode enabled and no MIG devices")));
  Inventory half = gpus(2);
  add_mig(half.gpus[0], "1g.18gb");
  EXPECT_THAT(problems_of(config, half),
              ElementsAre(HasSubstr("GPU 1 has MIG mode disabled while other GPUs have it enabled")));
  Inventory unlike = gpus(1);
  add_mig(unlike.gpus[0], "1g.18gb");
  add_mig(unlike.gpus[0], "2g.35gb", 2);
  EXPECT_THAT(problems_of(config, unlike),
              ElementsAre(HasSubstr("a MIG device 2g.35gb (MIG-01) that is unlike 1g.18gb (MIG-00)")));
  add_mig(half.gpus[0], "2g.35gb", 2);
  EXPECT_THAT(problems_of(config, half), SizeIs(2)) << "all of them, not the first";
}

// Promise: plan/mig: `mixed` gives every profile its name.
TEST(PlanMig, MixedGivesEveryProfileItsName) {
  Config config;
  config.flags.mig_strategy = config::MigStrategy::kMixed;
  Inventory inventory = gpus(3);
  add_mig(inventory.gpus[0], "1g.18gb+me");
  add_mig(inventory.gpus[0], "3g.71gb", 3);
  inventory.gpus[2].mig_enabled = true;
  const Plan plan = plan_of(config, inventory);
  std::vector<std::string> names;
  for (const auto& resource : plan.resources) names.push_back(resource.name);
  EXPECT_THAT(names, ElementsAre("nvidia.com/gpu", "nvidia.com/mig-1g.18gb.me", "nvidia.com/mig-3g.71gb"));
  ASSERT_THAT(plan.left_out, SizeIs(1));
  EXPECT_THAT(plan.left_out[0].why, HasSubstr("no MIG devices"));
}

TEST(PlanMig, MpsIsRefusedOnMigDevices) {
  Config config = shared(SharingStrategy::kMps, 2);
  Inventory inventory = gpus(1);
  add_mig(inventory.gpus[0], "1g.18gb");
  config.flags.mig_strategy = config::MigStrategy::kSingle;
  EXPECT_THAT(problems_of(config, inventory), ElementsAre(HasSubstr("MPS shares whole GPUs only")));
}

TEST(Pools, IdsAreShortAndGrowOnlyOnCollision) {
  EXPECT_THAT(pool_ids({"GPU-3f2a1b4c-1111-2222-3333-444444444444", "GPU-ABCDEF01-1111-2222-3333-444444444444"}),
              ElementsAre("gpu-3f2a1b4c", "gpu-abcdef01"));
  EXPECT_THAT(pool_ids({"GPU-3f2a1b4c-1111-2222-3333-444444444444", "GPU-aaaaaaaa-0000-0000-0000-000000000000",
                        "GPU-3f2a1b4c-1112-2222-3333-444444444444"}),
              ElementsAre("gpu-3f2a1b4c1111", "gpu-aaaaaaaa", "gpu-3f2a1b4c1112"));
  EXPECT_THAT(pool_ids({"odd"}), ElementsAre(HasSubstr("gpu-")));
}

TEST(Plan, AddingAGpuChangesNothingForTheOthers) {
  const Config config = shared(SharingStrategy::kMps, 7);
  const Plan two = plan_of(config, gpus(2));
  const Plan three = plan_of(config, gpus(3));
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(two.resources[0].devices[i], three.resources[0].devices[i]);
    EXPECT_EQ(two.pools[i], three.pools[i]);
  }
}

}  // namespace make_plan_test
}  // namespace tranche::plan
