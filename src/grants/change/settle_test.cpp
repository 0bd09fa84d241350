#include "grants/change/change.h"

#include <gmock/gmock.h>

#include "grants/change/plan_fixture.h"

namespace tranche::grants {
namespace {

using namespace fixture;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Offer {
  std::vector<std::string> healthy, unhealthy;
};

Offer offered(const Settled& settled, const std::string& resource) {
  Offer offer;
  for (const auto& list : plan::advertise(settled.plan, {}, settled.withheld)) {
    if (list.resource != resource) continue;
    for (const auto& slot : list.slots) (slot.healthy ? offer.healthy : offer.unhealthy).push_back(slot.id);
  }
  return offer;
}

Settled settled(const plan::Plan& before, const plan::Plan& newest, const std::vector<HeldShare>& held) {
  return settle({before, {}, {}}, newest, held);
}

TEST(Settle, WithNothingHeldTheNewestPlanIsInForceAtOnce) {
  for (const auto& newest : {all_mps(2, 5), all_sliced(2, 3), plan_of({named(kGpu, {gpu(0), gpu(1)})})}) {
    const auto now = settled(all_mps(2, 10), newest, {});
    EXPECT_EQ(now, (Settled{newest, {}, {}}));
  }
}

// Promise: change: An equal plan changes nothing.
TEST(Settle, AnEqualPlanIsLeftAloneWhateverIsHeld) {
  const auto plan = all_mps(2, 10);
  EXPECT_EQ(settled(plan, plan, {held(plan, kGpu, 0, {0, 1, 2}), held(plan, kGpu, 0, {9}), held(plan, kGpu, 1, {4})}),
            (Settled{plan, {}, {}}));
}

// Promise: change: Held slots stay on kubelet's list, unhealthy, until they are free.
TEST(Settle, ShrinkingKeepsHeldSlotsUntilTheyAreFree) {
  const auto before = all_mps(1, 10), newest = all_mps(1, 5);
  auto now = settled(before, newest, {held(before, kGpu, 0, {7}), held(before, kGpu, 0, {0})});
  EXPECT_EQ(now.plan, newest);
  EXPECT_THAT(offered(now, kGpu).unhealthy, testing::Contains("GPU-0::7"));
  EXPECT_THAT(offered(now, kGpu).healthy, testing::Contains("GPU-0::0"));
  EXPECT_THAT(texts_of(now.waiting),
              testing::Contains("nvidia.com/gpu on GPU 0: 1 slot fewer (waits: 1 slot is held)"));
  now = settle(now, newest, {held(before, kGpu, 0, {0})});
  EXPECT_THAT(offered(now, kGpu).unhealthy, IsEmpty());
}

// Promise: change: A resource that vanishes stays until its slots are free.
TEST(Settle, AResourceThatVanishesIsShownUntilItsSlotsAreFreeAndItsIdsAreNotGivenTwice) {
  const auto before = all_mps(1, 4), newest = all_mps(1, 4, "nvidia.com/gpu.shared");
  const auto now = settled(before, newest, {held(before, kGpu, 0, {1})});
  EXPECT_THAT(offered(now, kGpu).unhealthy, ElementsAre("GPU-0::1"));
  EXPECT_THAT(offered(now, kGpu).healthy, IsEmpty());
  EXPECT_THAT(offered(now, "nvidia.com/gpu.shared").healthy, ElementsAre("GPU-0::0", "GPU-0::2", "GPU-0::3"));
  EXPECT_EQ(*plan::reason_withheld(now.withheld, "nvidia.com/gpu.shared", "GPU-0::1"), "it is held as nvidia.com/gpu");
  EXPECT_THAT(texts_of(now.waiting), ElementsAre("nvidia.com/gpu vanishes (waits: 1 slot is held)"));
}

TEST(Settle, AGpuWhoseMeansChangeWaitsUntilItIsFreeAndOthersChangeAtOnce) {
  const auto before = all_sliced(2, 4), newest = all_mps(2, 10);
  auto now = settled(before, newest, {held(before, kGpu, 0, {1})});
  const auto offer = offered(now, kGpu);
  EXPECT_THAT(offer.unhealthy, ElementsAre("GPU-0::0", "GPU-0::1", "GPU-0::2", "GPU-0::3")) << "nothing new lands";
  EXPECT_EQ(offer.healthy.size(), 10u);
  ASSERT_EQ(now.plan.pools.size(), 1u);
  EXPECT_EQ(now.plan.pools[0].id, "gpu-1");
  EXPECT_THAT(texts_of(now.waiting), ElementsAre("GPU 0: time-slicing → MPS (waits: 1 slot is held)"));
  now = settle(now, newest, {});
  EXPECT_EQ(now, (Settled{newest, {}, {}}));
}

TEST(Settle, AGpuThatIsGoneDoesNotStayBecauseAnotherWaits) {
  const auto before = all_sliced(2, 4), newest = all_mps(1, 10);
  const auto offer = offered(settled(before, newest, {held(before, kGpu, 0, {1})}), kGpu);
  EXPECT_THAT(offer.unhealthy, ElementsAre("GPU-0::0", "GPU-0::1", "GPU-0::2", "GPU-0::3"));
  EXPECT_THAT(offer.healthy, IsEmpty());
}

// Promise: change: A GPU changes its sharing when nothing of it is held; other GPUs change at once.
TEST(Settle, EveryChangeOfMeansWaits) {
  const auto exclusive = plan_of({named(kGpu, {gpu(0)})});
  const auto joined = plan_of({named(kGpu, {mps(0, 4, "set-1")})});
  const std::vector<plan::Plan> plans{exclusive, all_sliced(1, 4), all_mps(1, 4), joined};
  for (const auto& before : plans) {
    for (const auto& newest : plans) {
      const auto now = settled(
          before, newest,
          {held(before, kGpu, 0, before == exclusive ? std::vector<std::uint32_t>{} : std::vector<std::uint32_t>{2})});
      EXPECT_EQ(now.plan.resources[0].devices, before.resources[0].devices);
      EXPECT_EQ(now.plan.pools, before.pools);
      EXPECT_EQ(now.waiting.size(), before == newest ? 0u : 1u);
      if (before != newest) {
        EXPECT_THAT(offered(now, kGpu).healthy, IsEmpty());
      }
    }
  }
}

// Promise: change: The GPUs of a joined pool change together.
TEST(Settle, TheGpusOfAJoinedPoolChangeTogether) {
  const auto before = plan_of({named(kGpu, {mps(0, 4), mps(1, 4)})});
  const auto newest = plan_of({named(kGpu, {mps(0, 4, "set-1"), mps(1, 4, "set-1")})});
  auto now = settled(before, newest, {held(before, kGpu, 0, {0})});
  EXPECT_EQ(now.plan.pools, before.pools);
  EXPECT_THAT(texts_of(now.waiting),
              ElementsAre("GPU 0: MPS pool gpu-0 → MPS pool set-1 (waits: 1 slot is held)",
                          "GPU 1: MPS pool gpu-1 → MPS pool set-1 (waits: the GPUs of its MPS pool "
                          "change together)"));
  now = settled(newest, before, {held(newest, kGpu, 0, {0})});
  EXPECT_EQ(now.plan.pools, newest.pools) << "its daemon serves both as long as it has a client";
}

// Promise: change: Growing offers no more than the device has.
TEST(Settle, GrowingGivesOutNoMoreThanTheDeviceHas) {
  const auto before = all_mps(1, 5), newest = all_mps(1, 10);
  const auto now = settled(before, newest, {held(before, kGpu, 0, {0}), held(before, kGpu, 0, {1, 2})});
  EXPECT_THAT(offered(now, kGpu).healthy, testing::SizeIs(3 + 4)) << "three of a fifth leave room for four tenths";
  EXPECT_THAT(texts_of(now.waiting), ElementsAre(HasSubstr("nvidia.com/gpu on GPU 0: 3 slots more (waits: ")));
}

TEST(Settle, AfterARestartWhatIsHeldOfBeforeIsFoundOut) {
  const auto before = all_sliced(2, 4), newest = all_mps(2, 10);
  const auto now = settle({}, newest, {held(before, kGpu, 0, {3})});
  EXPECT_THAT(offered(now, kGpu).unhealthy, ElementsAre("GPU-0::3"));
  EXPECT_EQ(offered(now, kGpu).healthy.size(), 10u) << "of the other GPU";
  EXPECT_THAT(now.plan.pools, testing::SizeIs(1));
}

TEST(Settle, AGpuThatIsCutIntoMigDevicesWaitsToo) {
  auto mig = gpu(0);
  mig.uuid = "MIG-1";
  mig.index = "0:0";
  mig.is_mig = true;
  const auto before = plan_of({named(kGpu, {gpu(0)})}), newest = plan_of({named(kGpu, {mig})});
  auto now = settled(before, newest, {held(before, kGpu, 0, {})});
  EXPECT_EQ(now.plan.resources[0].devices, before.resources[0].devices);
  EXPECT_THAT(offered(now, kGpu).healthy, IsEmpty());
}

TEST(Settle, DevicesOfOtherVendorsAreNoneOfOurs) {
  const auto plan = all_mps(1, 2);
  EXPECT_EQ(
      settled(plan, plan, {{"vendor.com/nic", "nic0", {"nic0"}, "", {}}, {"vendor.com/x", "GPU-0", {"GPU-0"}, "", {}}}),
      (Settled{plan, {}, {}}));
}

}  // namespace
}  // namespace tranche::grants
