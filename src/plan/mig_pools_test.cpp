// MPS on MIG devices (sharing.mps.migDevices): one pool per device, limits by its UUID, no compute mode.
#include <gmock/gmock.h>

#include "make.h"
#include "plan/make_plan_fixture.h"
#include "plan/plan_steps.h"
#include "plan/shares.h"

namespace tranche::plan {
namespace mig_pools_test {

using config::Config;
using fixture::plan_of;
using fixture::problems_of;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// GPU 0 whole; GPU 1 partitioned into a 1g and a 3g device.
gpu::Inventory two_gpus() {
  auto inventory = make::gpus(2, make::kA100);
  for (auto& gpu : inventory.gpus) {
    gpu.mig_capable = true;
    gpu.max_mig_devices = 7;
  }
  gpu::Gpu& cut = inventory.gpus[1];
  const auto add = [&](const char* uuid, const char* profile, std::uint32_t slices, std::uint64_t memory) {
    auto& mig = make::add_mig(cut, profile, slices);
    mig.uuid = uuid;
    mig.memory = mib(memory);
    mig.sm_count = 14 * slices;
  };
  add("MIG-11111111-2222-5333-8444-555555555555", "1g.10gb", 1, 9728);
  add("MIG-99999999-2222-5333-8444-555555555555", "3g.40gb", 3, 40192);
  return inventory;
}

Config on_mig(std::uint32_t replicas) {
  Config config;
  config.flags.mig_strategy = config::MigStrategy::kMixed;
  config.sharing.strategy = config::SharingStrategy::kMps;
  config.sharing.fail_requests_greater_than_one = true;
  config.sharing.mig_devices = true;
  int line = 5;
  for (const char* name : {"nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.40gb", "nvidia.com/gpu"}) {
    config::SharedResource entry;
    entry.name = name;
    entry.replicas = replicas;
    entry.strategy = config::SharingStrategy::kMps;
    entry.place = {"c.yaml", ++line, 7};
    config.sharing.resources.push_back(entry);
  }
  return config;
}

// Promise: mps/mig: A MIG device has its own pool with limits by its UUID.
TEST(PlanMigMps, GivesEveryMigDeviceAPoolOfItsOwn) {
  const Plan plan = plan_of(on_mig(4), two_gpus());
  ASSERT_THAT(plan.pools, SizeIs(3));
  EXPECT_EQ(plan.pools[0].id, "gpu-00000000");
  const PlannedPool& small = plan.pools[1];
  EXPECT_EQ(small.id, "mig-11111111");
  EXPECT_TRUE(small.is_mig);
  EXPECT_THAT(small.devices, ElementsAre("MIG-11111111-2222-5333-8444-555555555555"));
  ASSERT_THAT(small.limits, SizeIs(1));
  EXPECT_EQ(small.limits[0].uuid, small.devices[0]);
  EXPECT_EQ(small.limits[0].client.memory.in_mib(), 9728u / 4);
  EXPECT_EQ(small.limits[0].client.sms, 8u) << "of the profile's 14 SMs, not of the GPU's";
  EXPECT_EQ(small.max_clients, 6u);
  EXPECT_EQ(plan.pools[2].max_clients, 20u);
}

// Promise: mps/mig: The compute mode of MIG devices is left alone and this is reported.
TEST(PlanMigMps, LeavesTheComputeModeOfMigDevicesAloneAndSaysSo) {
  const Plan plan = plan_of(on_mig(4), two_gpus());
  EXPECT_EQ(plan.pools[0].compute_mode, config::ComputeModePolicy::kExclusive);
  EXPECT_EQ(plan.pools[1].compute_mode, config::ComputeModePolicy::kLeave);
  EXPECT_THAT(plan.notes,
              Contains(HasSubstr("nvidia.com/mig-1g.10gb and nvidia.com/mig-3g.40gb: a MIG device has no")));
}

TEST(PlanMigMps, RefusesMoreSlotsThanAMigDeviceHasClients) {
  EXPECT_THAT(
      problems_of(on_mig(7), two_gpus()),
      ElementsAre("c.yaml:6:7: error: sharing.mps.resources[0].replicas: is 7, but MPS serves at most 6 clients "
                  "on MIG device 1:0 (MIG-11111111-2222-5333-8444-555555555555), a part of NVIDIA "
                  "A100-SXM4-80GB of compute capability 8.0 with CUDA 13.0; write replicas: 6 or less"));
}

// Promise: mps/mig: Several slots of a MIG device in one container are refused.
TEST(PlanMigMps, RefusesSeveralSlotsInOneContainer) {
  Config config = on_mig(4);
  config.sharing.fail_requests_greater_than_one = false;
  EXPECT_THAT(problems_of(config, two_gpus()),
              Contains(HasSubstr("sharing.mps.failRequestsGreaterThanOne: is false, but "
                                 "nvidia.com/mig-1g.10gb holds MIG devices")));
}

TEST(PlanMigMps, LeavesAWholeGpuWithMigOutAndNamesTheStrategy) {
  Config config = on_mig(4);
  config.flags.mig_strategy = config::MigStrategy::kNone;
  const Plan plan = plan_of(config, two_gpus());
  ASSERT_THAT(plan.left_out, SizeIs(1));
  EXPECT_THAT(plan.left_out[0].why, HasSubstr("write migStrategy: mixed or single"));
}

TEST(PlanMigMps, NamesPoolsOfOldMigNamesApart) {
  EXPECT_THAT(
      pool_ids({"MIG-GPU-11111111-2222-3333-4444-555555555555/1/0", "MIG-GPU-11111111-2222-3333-4444-555555555555/2/0",
                "GPU-11111111-2222-3333-4444-555555555555"}),
      SizeIs(3));
  const auto ids = pool_ids(
      {"MIG-GPU-11111111-2222-3333-4444-555555555555/1/0", "MIG-GPU-11111111-2222-3333-4444-555555555555/2/0"});
  EXPECT_NE(ids[0], ids[1]);
  EXPECT_TRUE(ids[0].starts_with("mig-"));
}

}  // namespace mig_pools_test
}  // namespace tranche::plan
