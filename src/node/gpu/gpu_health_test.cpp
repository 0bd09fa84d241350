#include "node/gpu/gpu_health.h"

#include <gmock/gmock.h>

namespace tranche::node {
namespace gpu_health_test {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using What = gpu::GpuEvent::What;

constexpr MonoTime kStart{};

// Two GPUs and a plan of one slot each; GPU-c is in the node and not in the plan.
struct Agent {
  explicit Agent(const config::Environment& environment = {}) : health(environment, {minutes(5)}) {
    for (const char* uuid : {"GPU-a", "GPU-b", "GPU-c"}) inventory.gpus.emplace_back().uuid = uuid;
    auto& resource = plan.resources.emplace_back();
    for (const char* uuid : {"GPU-a", "GPU-b"}) {
      auto& device = resource.devices.emplace_back();
      device.uuid = device.gpu_uuid = uuid;
    }
    health.on_inventory(inventory, {}, kStart);
  }
  bool event(What what, const std::string& gpu, std::uint64_t xid = 0, MonoTime now = kStart) {
    return health.on_event({.what = what, .gpu_uuid = gpu, .xid = xid, .why = "a reason"}, inventory, now);
  }
  std::map<std::string, gpu::Unhealthy> others;  // faults that no GPU reports
  plan::Faults judge(MonoTime now = kStart, const std::string& driver_problem = "") {
    return health.judge(plan, inventory, driver_problem, others, {}, now);
  }
  std::optional<gpu::Cause> cause_of(const std::string& device) {
    const auto at = health.report().unhealthy.find(device);
    return at == health.report().unhealthy.end() ? std::nullopt : std::optional(at->second.what.cause);
  }
  gpu::Inventory inventory;
  plan::Plan plan;
  GpuHealth health;
};

TEST(GpuHealth, AnXidAsksForALookAndIsCountedWhateverItsClass) {
  Agent agent;
  EXPECT_TRUE(agent.event(What::kXid, "GPU-a", 31));
  EXPECT_THAT(agent.judge().devices, IsEmpty());
  EXPECT_TRUE(agent.event(What::kXid, "GPU-a", 79));
  EXPECT_EQ(agent.judge().devices.size(), 1u);
  EXPECT_EQ(agent.health.report().xids, (decltype(HealthReport::xids){{{"GPU-a", 31}, 1}, {{"GPU-a", 79}, 1}}));
  EXPECT_EQ(agent.cause_of("GPU-a"), gpu::Cause::kXid);
}

TEST(GpuHealth, AnXidOfNoKnownGpuMarksNobodyAndOneOfNoGpuAtAllMarksEverybody) {
  Agent agent;
  agent.event(What::kXid, "GPU-z", 79);
  EXPECT_THAT(agent.judge().devices, IsEmpty());
  agent.event(What::kXid, "", 79);
  EXPECT_EQ(agent.judge().devices.size(), 3u);
  EXPECT_THAT(agent.judge().devices.at("GPU-b").why, HasSubstr("would not say on which GPU"));
  EXPECT_EQ(agent.health.report().xids.at({"unknown", 79}), 1u);
}

TEST(GpuHealth, AnXidOfAGpuThatIsNotPlannedChangesNothingThatIsAdvertised) {
  Agent agent;
  agent.event(What::kXid, "GPU-c", 79);
  agent.judge();
  EXPECT_THAT(agent.health.report().unhealthy, IsEmpty());
}

TEST(GpuHealth, WhatTheNodeLacksIsADevicesFaultUnlessItsGpuHasOneOfItsOwn) {
  Agent agent;
  for (const char* uuid : {"GPU-a", "GPU-b"}) agent.others[uuid] = {gpu::Cause::kNode, "a node is missing"};
  agent.event(What::kLost, "GPU-a");
  EXPECT_EQ(agent.judge().devices.at("GPU-b").why, "a node is missing");
  EXPECT_EQ(agent.cause_of("GPU-a"), gpu::Cause::kLost);
  EXPECT_EQ(agent.cause_of("GPU-b"), gpu::Cause::kNode);
  agent.others.clear();
  agent.judge();
  EXPECT_EQ(agent.cause_of("GPU-b"), std::nullopt);
}

TEST(GpuHealth, ADriverThatIsSilentOrGoneIsEveryDevicesFaultWhileItLasts) {
  Agent agent;
  agent.event(What::kSilent, "");
  EXPECT_EQ(agent.judge().devices.at("GPU-b").why, "the driver does not answer any more: a reason");
  EXPECT_EQ(agent.cause_of("GPU-a"), gpu::Cause::kDriver);
  EXPECT_TRUE(agent.event(What::kAnswering, ""));
  EXPECT_THAT(agent.judge().devices, IsEmpty());
  EXPECT_EQ(agent.judge(kStart, "the kernel driver is not loaded").devices.size(), 2u);
  EXPECT_THAT(agent.judge().devices, IsEmpty());
  EXPECT_EQ(agent.health.report().falls.at(gpu::Cause::kDriver), 4u);
}

TEST(GpuHealth, AGpuThatVanishesFromTheListIsLostAndItsReturnEndsWhatAResetEnds) {
  Agent agent;
  agent.event(What::kXid, "GPU-b", 95);
  agent.health.on_inventory(agent.inventory, {"GPU-b"}, kStart + minutes(1));
  EXPECT_THAT(agent.judge(kStart + minutes(1)).devices.at("GPU-b").why, HasSubstr("does not list this GPU"));
  EXPECT_EQ(agent.cause_of("GPU-b"), gpu::Cause::kLost);
  agent.health.on_inventory(agent.inventory, {}, kStart + minutes(2));
  EXPECT_THAT(agent.judge(kStart + minutes(2)).devices, IsEmpty());
}

TEST(GpuHealth, RecoversByItsOwnLookAfterTheQuietPeriod) {
  Agent agent;
  agent.event(What::kXid, "GPU-a", 54);
  agent.judge();
  ASSERT_EQ(agent.health.next_change(), kStart + minutes(5));
  ASSERT_TRUE(agent.health.wants_look(kStart + minutes(5)));
  gpu::GpuUse use;
  use.uuid = "GPU-a";
  use.demand = 0;
  agent.health.on_use({use}, kStart + minutes(5));
  EXPECT_THAT(agent.judge(kStart + minutes(5)).devices, IsEmpty());
}

TEST(GpuHealth, WithEverythingDisabledDemandsAndPlacesAreNoMatterAndLossesAre) {
  Agent agent(config::Environment{{"DP_DISABLE_HEALTHCHECKS", "all"}});
  agent.inventory.gpus[0].mig_devices.emplace_back().uuid = "MIG-1";
  agent.inventory.gpus[0].mig_devices[0].gpu_instance = gpu::kNoInstance;
  EXPECT_FALSE(agent.event(What::kXid, "GPU-a", 79));
  EXPECT_FALSE(agent.event(What::kDemand, "GPU-a"));
  gpu::GpuUse use;
  use.uuid = "GPU-a";
  use.demand = 1;
  agent.health.on_use({use}, kStart);
  EXPECT_THAT(agent.judge().devices, IsEmpty());
  agent.event(What::kLost, "GPU-b");
  EXPECT_EQ(agent.judge().devices.size(), 1u);
  EXPECT_EQ(agent.health.report().off, "health checks are disabled by DP_DISABLE_HEALTHCHECKS");
}

TEST(GpuHealth, AMigDeviceWithoutAPlaceCannotBeWatched) {
  Agent agent;
  agent.inventory.gpus[0].mig_devices.emplace_back().uuid = "MIG-1";
  agent.inventory.gpus[0].mig_devices[0].compute_instance = gpu::kNoInstance;
  EXPECT_THAT(agent.judge().devices.at("MIG-1").why, HasSubstr("would not be seen"));
}

TEST(GpuHealth, PoolsAreTheLastCauseAndKeepTheirWords) {
  Agent agent;
  agent.plan.resources[0].devices[0].pool = "p";
  const auto faults = agent.health.judge(agent.plan, agent.inventory, "", {}, {{"p", "starting"}}, kStart);
  EXPECT_EQ(faults.pools.at("p"), "starting");
  EXPECT_EQ(agent.cause_of("GPU-a"), gpu::Cause::kPool);
  EXPECT_EQ(agent.health.report().unhealthy.at("GPU-a").since, kStart);
}

}  // namespace gpu_health_test
}  // namespace tranche::node
