#include "stopping/stopping.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>

#include "stopping/suspicion.h"

namespace tranche::stopping {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const MonoTime kT0{1000s};
constexpr const char* kGrant = "00ff11ee22dd33cc";

StoppingPod pod(Holding holding, Duration grace = 30s) {
  holding.container = "main";
  holding.pool = "gpu-1";
  if (holding.grant.empty()) holding.grant = kGrant;
  return {"uid", "default", "train", grace, kT0, false, {std::move(holding)}};
}

Step one(State& state, const StoppingPod& stopping, MonoTime now) {
  return step(state, std::span(&stopping, 1), now);
}

const Key kKey{"uid", kGrant};

TEST(PodStops, AContainerThatMayDieIsDrainedAtOnce) {
  State state;
  const auto out = one(state, pod({.clients = 1}), kT0);
  ASSERT_THAT(out.now, SizeIs(1));
  EXPECT_EQ(out.now[0].pool, "gpu-1");
  EXPECT_EQ(out.now[0].grant, kGrant);
  EXPECT_EQ(out.now[0].pod, "train");
  EXPECT_EQ(out.now[0].deadline, 2s);
}

TEST(PodStops, AContainerThatSurvivesIsDrainedShortlyBeforeItsGraceEnds) {
  State state;
  const auto survivor = pod({.clients = 1, .survives = true});
  EXPECT_EQ(one(state, survivor, kT0).next, kT0 + 29500ms);
  EXPECT_THAT(one(state, survivor, kT0 + 29499ms).now, IsEmpty());
  const auto out = one(state, survivor, kT0 + 29500ms);
  ASSERT_THAT(out.now, SizeIs(1));
  EXPECT_EQ(out.now[0].deadline, 500ms) << "not beyond the SIGKILL";
}

TEST(PodStops, ManyClientsAreGivenMoreTime) {
  State state;
  EXPECT_EQ(one(state, pod({.clients = 40, .survives = true}), kT0).next, kT0 + 28s);
}

TEST(PodStops, AContainerWithOurHookIsLeftToTheHookUntilItsGraceEnds) {
  State state;
  const auto out = one(state, pod({.clients = 2, .hooked = true}), kT0);
  EXPECT_THAT(out.now, IsEmpty());
  EXPECT_EQ(out.next, kT0 + 29500ms);
}

TEST(PodStops, WithoutClientsThereIsNothingToDoUntilThereAreSome) {
  State state;
  const auto none = one(state, pod({.clients = 0}), kT0);
  EXPECT_THAT(none.now, IsEmpty());
  EXPECT_EQ(none.next, std::nullopt);
  EXPECT_THAT(one(state, pod({.clients = 1}), kT0 + 1s).now, SizeIs(1));
}

TEST(PodStops, WhereNobodyKnowsTheClientsItIsDrained) {
  State state;
  EXPECT_THAT(one(state, pod({.clients = std::nullopt}), kT0).now, SizeIs(1));
}

TEST(PodStops, StepsThatComeAgainAskNothingAgain) {
  State state;
  const auto stopping = pod({.clients = 1});
  EXPECT_THAT(one(state, stopping, kT0).now, SizeIs(1));
  EXPECT_THAT(one(state, stopping, kT0).now, IsEmpty());
  ended(state, kKey, true);
  EXPECT_THAT(one(state, stopping, kT0 + 1s).now, IsEmpty());
}

TEST(PodStops, AFailedDrainIsTriedOnceMore) {
  State state;
  const auto stopping = pod({.clients = 1});
  (void)one(state, stopping, kT0);
  ended(state, kKey, false);
  EXPECT_THAT(one(state, stopping, kT0 + 1s).now, SizeIs(1));
  ended(state, kKey, false);
  EXPECT_THAT(one(state, stopping, kT0 + 2s).now, IsEmpty());
  EXPECT_EQ(state.at(kKey).phase, Phase::kFailed);
}

TEST(PodStops, AShorterGraceCountsAndALongerOneDoesNot) {
  State state;
  EXPECT_EQ(one(state, pod({.clients = 1, .survives = true}), kT0).next, kT0 + 29500ms);
  auto shorter = pod({.clients = 1, .survives = true}, 5s);
  shorter.seen = kT0 + 2s;
  EXPECT_EQ(one(state, shorter, kT0 + 2s).next, kT0 + 6500ms);
  EXPECT_EQ(one(state, pod({.clients = 1, .survives = true}, 60s), kT0 + 3s).next, kT0 + 6500ms);
}

TEST(PodStops, AGraceShorterThanTheMarginIsDrainedAtOnce) {
  State state;
  EXPECT_THAT(one(state, pod({.clients = 1, .survives = true}, 300ms), kT0).now, SizeIs(1));
}

TEST(PodStops, AForcedDeletionIsDrainedAtOnceWhateverTheProof) {
  State state;
  auto stopping = pod({.clients = 1, .survives = true, .hooked = true});
  EXPECT_THAT(one(state, stopping, kT0).now, IsEmpty());
  stopping.gone = true;
  const auto out = one(state, stopping, kT0 + 1s);
  ASSERT_THAT(out.now, SizeIs(1));
  EXPECT_EQ(out.now[0].reason, "the pod was deleted by force");
}

TEST(PodStops, AProofThatDoesNotHoldAnyMoreLeadsToADrain) {
  State state;
  (void)one(state, pod({.clients = 1, .survives = true}), kT0);
  EXPECT_THAT(one(state, pod({.clients = 1, .survives = false}), kT0 + 1s).now, SizeIs(1));
}

TEST(PodStops, EveryContainerOfAPodIsDecidedByItself) {
  State state;
  auto stopping = pod({.clients = 1, .survives = true});
  stopping.holdings.push_back({"side", "gpu-2", "0000000000000001", 3, false, false});
  const auto out = one(state, stopping, kT0);
  ASSERT_THAT(out.now, SizeIs(1));
  EXPECT_EQ(out.now[0].container, "side");
  EXPECT_EQ(out.next, kT0 + 29500ms);
}

TEST(PodStops, APodThatIsGoneIsForgottenAndItsSlotsNextHolderIsNotTouched) {
  State state;
  (void)one(state, pod({.clients = 1, .survives = true}), kT0);
  const auto none = step(state, {}, kT0 + 1s);
  EXPECT_THAT(none.now, IsEmpty());
  EXPECT_EQ(none.next, std::nullopt);
  EXPECT_THAT(state, IsEmpty());
  ended(state, kKey, true);  // an answer that comes late
  EXPECT_THAT(state, IsEmpty());
}

TEST(PodStops, TheNextStepIsNeverInThePast) {
  State state;
  for (MonoTime now = kT0; now < kT0 + 40s; now += 100ms) {
    const auto out = one(state, pod({.clients = 7, .survives = true}), now);
    EXPECT_GT(out.next.value_or(MonoTime::max()), now);
  }
}

// Seeded; facts change at random, and steps come when they are asked for or earlier.
TEST(PodStops, WhateverTheFactsDoOneWithClientsIsDrainedBeforeItsEndAndNoneMoreThanTwice) {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    std::mt19937 random(seed);
    const auto one_in = [&random](unsigned n) { return random() % n == 0; };
    State state;
    auto stopping = pod({.clients = 1 + random() % 20}, std::chrono::seconds(random() % 40));
    MonoTime kill_at = kT0 + stopping.grace;
    int asked = 0;
    bool open = false;
    for (MonoTime now = kT0; now <= kill_at;) {
      auto& holding = stopping.holdings[0];
      holding.survives = !one_in(3);
      holding.hooked = one_in(4);
      if (one_in(10) && now + 1s + 2s < kill_at) {
        stopping.grace = kill_at - now - 1s;
        stopping.seen = now;
        kill_at = now + stopping.grace;
      }
      const auto out = one(state, stopping, now);
      asked += static_cast<int>(out.now.size());
      open = open || !out.now.empty();
      if (open && one_in(2)) {
        ended(state, kKey, !one_in(4));
        open = false;
      }
      const auto later = now + std::chrono::milliseconds(1 + random() % 900);
      now = out.next ? std::min(*out.next, later) : later;
    }
    EXPECT_GE(asked, 1) << "seed " << seed;
    EXPECT_LE(asked, 2) << "seed " << seed;
  }
}

TEST(UncleanDeaths, AskForAProofAtOnceAndForOneOfMany) {
  Suspicions suspicions;
  suspicions.died("gpu-1", kT0);
  suspicions.died("gpu-1", kT0);
  suspicions.died("gpu-2", kT0);
  EXPECT_THAT(suspicions.take_due(kT0), ElementsAre("gpu-1", "gpu-2"));
  EXPECT_THAT(suspicions.take_due(kT0), IsEmpty());
  suspicions.died("gpu-1", kT0 + 1s);
  EXPECT_EQ(suspicions.next(), kT0 + 5s);
  EXPECT_THAT(suspicions.take_due(kT0 + 4s), IsEmpty());
  EXPECT_THAT(suspicions.take_due(kT0 + 5s), ElementsAre("gpu-1"));
  EXPECT_EQ(suspicions.next(), std::nullopt);
}

}  // namespace
}  // namespace tranche::stopping
