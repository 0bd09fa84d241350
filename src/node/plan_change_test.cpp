#include "node/plan_change.h"

#include <gmock/gmock.h>

#include "os/files/files.h"
#include "os/files/scratch_fixture.h"

namespace tranche::node {
namespace plan_change_test {

using testing::ElementsAre;

Snapshot one_mps_gpu() {
  plan::PlannedDevice device;
  device.uuid = device.gpu_uuid = "GPU-a";
  device.index = "0";
  device.replicated = true;
  device.slots = 4;
  device.pool = "gpu-a";
  plan::PlannedResource resource;
  resource.name = "nvidia.com/gpu";
  resource.sharing = config::SharingStrategy::kMps;
  resource.devices.push_back(device);
  Snapshot snapshot;
  snapshot.plan.resources.push_back(resource);
  return snapshot;
}

const std::vector<grants::Held> kHeld{{.resource = "nvidia.com/gpu", .slots = {"GPU-a::1"}}};

std::string pool_in(const Snapshot& snapshot) {
  return held_shares(kHeld, snapshot).at(0).pool;
}

TEST(HeldShares, AreOfMpsByTheirLimitsOrTheirEndpoint) {
  auto snapshot = one_mps_gpu();
  snapshot.pools.connected = true;
  const std::string grant = grants::grant_id(kHeld[0].slots);
  EXPECT_EQ(pool_in(snapshot), "") << "every grant of MPS has an endpoint";
  snapshot.pools.pools["set-1"].endpoints = {{grant, {}, mps::GrantLimits{{"GPU-a", mib(700), Percent{1000}}}}};
  EXPECT_EQ(pool_in(snapshot), "set-1");
  EXPECT_EQ(held_shares(kHeld, snapshot)[0].memory, mib(700));
  snapshot.shares.own()[{grant, "GPU-a"}] = {"gpu-b", "nvidia.com/gpu", mib(5)};
  EXPECT_EQ(pool_in(snapshot), "gpu-b");
}

TEST(HeldShares, AreBelievedToBeThePlansWhileNobodyKnowsTheEndpoints) {
  EXPECT_EQ(pool_in(one_mps_gpu()), "gpu-a");
  const std::vector<grants::Held> whole{{.resource = "nvidia.com/gpu", .slots = {"GPU-a"}}};
  EXPECT_EQ(held_shares(whole, one_mps_gpu()).at(0).pool, "") << "no slot of this plan";
}

// Promise: change: Slots are withheld until the old pool has given its GPU back.
TEST(StillServed, AreTheSlotsOfAGpuThatAPoolHasNotGivenBackYet) {
  auto plan = one_mps_gpu().plan;
  mps::PoolReports reports;
  reports.connected = true;
  reports.pools["gpu-a"].devices = {"GPU-a"};
  EXPECT_TRUE(still_served(plan, reports).empty()) << "a pool on its way to that GPU is a pool's matter";
  plan.resources[0].devices[0].pool.clear();
  EXPECT_EQ(still_served(plan, reports).at("nvidia.com/gpu").size(), 4u);
  reports.pools.clear();
  EXPECT_TRUE(still_served(plan, reports).empty());
}

TEST(HeldWithoutMps, AreTheDevicesThatTrancheMpsMustLeaveAlone) {
  EXPECT_THAT(held_without_mps({{"nvidia.com/gpu", "GPU-a", {"GPU-a::0"}, "", {}},
                                {"nvidia.com/gpu", "GPU-b", {"GPU-b::0"}, "gpu-b", {}},
                                {"vendor.com/nic", "nic0", {"nic0"}, "", {}}}),
              ElementsAre("GPU-a"));
}

PlanChange::Moved step(PlanChange& change, Snapshot& snapshot) {
  PlanChange::Moved moved;
  change.step(snapshot, snapshot, moved);
  return moved;
}

TEST(PlanChange, KnowsWhatIsHeldWithoutTrancheMpsAndWhenThatIsOver) {
  const os::Scratch scratch;
  OtherHoldersFile file(scratch.path());
  grants::Ledger ledger;
  PlanChange change(ledger);
  Snapshot snapshot;
  snapshot.pools.connected = true;
  grants::Grant grant;
  grant.resource = "nvidia.com/gpu";
  grant.slots = {"GPU-a::1"};
  ledger.given(grant, MonoTime{});
  file.keep(*step(change, snapshot).other_holders);
  EXPECT_EQ(os::read_file(scratch / "other-holders").value_or("none"), "GPU-a\n");
  ledger.listed({}, MonoTime{} + std::chrono::minutes(1));
  ledger.listed({}, MonoTime{} + std::chrono::minutes(2));
  file.keep(*step(change, snapshot).other_holders);
  EXPECT_EQ(os::read_file(scratch / "other-holders").value_or("none"), "");
}

TEST(OtherHoldersFile, StaysAsTheAgentBeforeLeftItUntilTheHoldersAreKnown) {
  const os::Scratch scratch;
  ASSERT_TRUE(os::Dir::open(scratch.path())->write_atomically("other-holders", "GPU-a\n"));
  OtherHoldersFile file(scratch.path());
  file.keep({{}, false});
  EXPECT_EQ(os::read_file(scratch / "other-holders").value_or("none"), "GPU-a\n");
  file.keep({{}, true});
  EXPECT_EQ(os::read_file(scratch / "other-holders").value_or("none"), "");
}

}  // namespace plan_change_test
}  // namespace tranche::node
