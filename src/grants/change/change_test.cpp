#include "grants/change/change.h"

#include <gmock/gmock.h>

#include "grants/change/plan_fixture.h"

namespace tranche::grants {
namespace {

using namespace fixture;
using testing::ElementsAre;
using testing::IsEmpty;

bool waits(const Change& change) {
  return std::ranges::any_of(change.steps(), &Step::waits);
}

TEST(Change, ThatWaitsIsDoneWhenTheLastSlotIsFreeAndSaysSoMeanwhile) {
  const auto before = all_sliced(2, 4), newest = plan_of({named(kGpu, {mps(0, 4), mps(1, 4)})});
  Change change;
  change.aim(before);
  EXPECT_TRUE(change.follow({}));
  EXPECT_THAT(texts_of(change.steps()), IsEmpty()) << "the first plan is no change";
  const Holdings holdings{"", {held(before, kGpu, 1, {0, 2})}};
  EXPECT_FALSE(change.follow(holdings));
  change.aim(newest);
  EXPECT_TRUE(change.follow(holdings));
  EXPECT_TRUE(waits(change));
  EXPECT_THAT(texts_of(change.steps()), ElementsAre("GPUs 0-1: time-slicing → MPS (as soon as nothing of it is held)",
                                                    "GPU 1: time-slicing → MPS (waits: 2 slots are held)"));
  EXPECT_FALSE(change.follow(holdings));
  EXPECT_TRUE(change.follow({}));
  EXPECT_FALSE(waits(change));
  EXPECT_EQ(change.in_force(), newest);
  EXPECT_THAT(change.withheld(), IsEmpty());
}

TEST(Change, BackToWhatWasLeavesEverythingAsItIs) {
  const auto before = all_sliced(1, 4);
  const Holdings holdings{"", {held(before, kGpu, 0, {0})}};
  Change change;
  change.aim(before);
  change.follow(holdings);
  change.aim(all_mps(1, 4));
  change.follow(holdings);
  change.aim(before);
  EXPECT_TRUE(change.follow(holdings));
  EXPECT_EQ(change.in_force(), before);
  EXPECT_THAT(change.withheld(), IsEmpty());
  EXPECT_FALSE(waits(change));
}

std::size_t healthy_in(const Change& change) {
  std::size_t healthy = 0;
  for (const auto& list : plan::advertise(change.in_force(), {}, change.withheld()))
    for (const auto& slot : list.slots) healthy += slot.healthy ? 1U : 0U;
  return healthy;
}

// Promise: change: Without kubelet's answer everything counts as held.
TEST(Change, WhileNobodySaysWhoHoldsWhatAllIsTakenAsHeld) {
  const Holdings unanswered{"kubelet does not answer", {}};
  Change change;
  change.aim(all_mps(1, 4));
  change.follow({});
  change.aim(all_sliced(1, 2));
  EXPECT_TRUE(change.follow(unanswered));
  EXPECT_EQ(change.in_force(), all_mps(1, 4));
  EXPECT_EQ(healthy_in(change), 0u);
  ASSERT_EQ(change.steps().size(), 1u) << "fewer slots come with it";
  EXPECT_EQ(to_string(change.steps()[0]),
            "GPU 0: MPS → time-slicing (waits: it is not known which slots are held: kubelet does not answer)");
  change.aim(all_mps(1, 2));
  EXPECT_TRUE(change.follow(unanswered));
  EXPECT_EQ(change.withheld().at(kGpu).size(), 2u) << "those that went";
  EXPECT_FALSE(change.follow(unanswered)) << "and it stays so";
  change.aim(all_mps(1, 8));
  change.follow(unanswered);
  EXPECT_EQ(healthy_in(change), 4u) << "what may be held leaves no room for more";
  EXPECT_FALSE(change.follow(unanswered));
  EXPECT_TRUE(change.follow({}));
  EXPECT_EQ(healthy_in(change), 8u);
}

}  // namespace
}  // namespace tranche::grants
