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
  const std::vector<HeldShare> holdings{held(before, kGpu, 1, {0, 2})};
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
  const std::vector<HeldShare> holdings{held(before, kGpu, 0, {0})};
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

// Promise: change: Without kubelet's answer a change waits.
TEST(Change, WaitsWhileWhatIsHeldIsNotKnown) {
  const std::string unanswered = "kubelet does not answer";
  Change change;
  change.aim(all_mps(1, 4));
  EXPECT_TRUE(change.follow({}, unanswered)) << "the first plan is in effect at once";
  EXPECT_EQ(change.in_force(), all_mps(1, 4));
  EXPECT_FALSE(change.awaits_holders());
  for (const auto& newest : {all_sliced(1, 2), all_mps(1, 2), all_mps(1, 8)}) {
    change.aim(newest);
    EXPECT_TRUE(change.follow({}, unanswered));
    EXPECT_FALSE(change.follow({}, unanswered)) << "and it stays so";
    EXPECT_TRUE(change.awaits_holders());
    EXPECT_EQ(change.in_force(), all_mps(1, 4));
    EXPECT_THAT(change.withheld(), IsEmpty());
    ASSERT_FALSE(change.steps().empty());
    EXPECT_THAT(change.steps(), testing::Each(testing::Field(&Step::waits_for,
                                                             "it is not known which slots are held: "
                                                             "kubelet does not answer")));
  }
  EXPECT_TRUE(change.follow({}));
  EXPECT_EQ(change.in_force(), all_mps(1, 8));
  EXPECT_FALSE(waits(change));
  EXPECT_FALSE(change.follow({}, unanswered)) << "it is done, whatever kubelet answers next";
}

}  // namespace
}  // namespace tranche::grants
