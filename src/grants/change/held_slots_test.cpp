#include "grants/change/held_slots.h"

#include <gmock/gmock.h>

namespace tranche::change {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;

const Held kA{"nvidia.com/gpu", {"GPU-0::0"}};
const Held kB{"nvidia.com/gpu", {"GPU-0::1"}};

MonoTime at(Duration since) {
  return MonoTime{} + 1h + since;
}

TEST(HeldSlots, AreNotKnownUntilKubeletAnsweredAndWhenItStopsTo) {
  HeldSlots slots;
  EXPECT_NE(slots.unknown(), "");
  slots.listed({kA}, at(0s));
  EXPECT_EQ(slots.unknown(), "");
  slots.not_answered("nobody there");
  EXPECT_EQ(slots.unknown(), "nobody there");
  EXPECT_THAT(slots.held(), ElementsAre(kA)) << "and what was known stays";
}

// Promise: change: A slot is free after two answers of kubelet without it.
TEST(HeldSlots, AreFreeWhenTwoAnswersInARowDoNotNameThem) {
  HeldSlots slots;
  slots.listed({kA, kB}, at(0s));
  slots.listed({kB}, at(1s));
  EXPECT_EQ(slots.held().size(), 2u);
  EXPECT_TRUE(slots.in_doubt());
  slots.listed({kB}, at(2s));
  EXPECT_EQ(slots.held().size(), 2u) << "too soon";
  slots.listed({kB}, at(3s));
  EXPECT_THAT(slots.held(), ElementsAre(kB));
  EXPECT_FALSE(slots.in_doubt());
}

TEST(HeldSlots, ThatAreFreeBeyondDoubtAreRememberedUntilTheyAreGivenOrListedAgain) {
  const Held both{"nvidia.com/gpu", {"GPU-0::0", "GPU-0::1"}};
  HeldSlots slots;
  slots.listed({kA, kB}, at(0s));
  slots.listed({kB}, at(1s));
  EXPECT_THAT(slots.freed(), IsEmpty()) << "one answer is not enough";
  slots.listed({kB}, at(3s));
  EXPECT_THAT(slots.freed(), ElementsAre(kA));
  slots.given(both, at(4s));
  EXPECT_THAT(slots.freed(), IsEmpty());
  slots.listed({}, at(20s));
  slots.listed({}, at(30s));
  EXPECT_THAT(slots.freed(), ElementsAre(both));
  slots.listed({kA}, at(31s));
  EXPECT_THAT(slots.freed(), IsEmpty());
}

TEST(HeldSlots, ThatAreNamedAgainAreHeldAsBefore) {
  HeldSlots slots;
  slots.listed({kA, kB}, at(0s));
  slots.listed({kB}, at(1s));
  slots.listed({kA, kB}, at(2s));
  EXPECT_FALSE(slots.in_doubt());
  slots.listed({kB}, at(4s));
  EXPECT_EQ(slots.held().size(), 2u) << "the count begins anew";
}

TEST(HeldSlots, AreBelievedFreeLaterWhereKubeletNamesNobodyAsAfterItsStart) {
  HeldSlots slots;
  slots.listed({kA}, at(0s));
  slots.listed({}, at(1s));
  slots.listed({}, at(9s));
  EXPECT_THAT(slots.held(), ElementsAre(kA));
  slots.listed({}, at(11s));
  EXPECT_THAT(slots.held(), IsEmpty());
}

TEST(HeldSlots, GivenAMomentAgoAreHeldThoughKubeletDoesNotNameThemYet) {
  HeldSlots slots;
  slots.listed({}, at(0s));
  slots.given(kA, at(1s));
  slots.listed({kB}, at(2s));
  slots.listed({kB}, at(5s));
  EXPECT_EQ(slots.held().size(), 2u);
  slots.listed({kB}, at(7s));
  slots.listed({kB}, at(9s));
  EXPECT_THAT(slots.held(), ElementsAre(kB)) << "it has come to nothing";
}

TEST(HeldSlots, GivenToAnotherAreThatOnes) {
  const Held both{"nvidia.com/gpu", {"GPU-0::0", "GPU-0::1"}};
  HeldSlots slots;
  slots.listed({both}, at(0s));
  slots.given(kA, at(1s));
  EXPECT_THAT(slots.held(), ElementsAre(kA));
  slots.listed({both}, at(0s));
  EXPECT_THAT(slots.held(), ElementsAre(kA)) << "an answer from before";
}

}  // namespace
}  // namespace tranche::change
