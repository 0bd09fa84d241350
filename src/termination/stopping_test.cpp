#include "termination/stopping.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>

namespace tranche::stopping {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const MonoTime kT0{1000s};
constexpr const char* kGrant = "00ff11ee22dd33cc";
constexpr bool kFirst = true, kLast = false;

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

// Promise: stop: Clients that the signal kills end at once, others shortly before the grace ends.
TEST(PodStops, AtOnceForClientsThatTheSignalKillsAndForTheOthersShortlyBeforeTheGraceEnds) {
  State state;
  const auto stopping = pod({.clients = 1, .stop_signal = 3});
  auto out = one(state, stopping, kT0);
  ASSERT_THAT(out.now, SizeIs(1));
  EXPECT_EQ(out.now[0].pool, "gpu-1");
  EXPECT_EQ(out.now[0].grant, kGrant);
  EXPECT_EQ(out.now[0].pod, "train");
  EXPECT_EQ(out.now[0].stop_signal, 3);
  EXPECT_TRUE(out.now[0].spare);
  EXPECT_EQ(out.next, kT0 + 27500ms);
  ended(state, kKey, kFirst, true);
  EXPECT_THAT(one(state, stopping, kT0 + 27499ms).now, IsEmpty());
  out = one(state, stopping, kT0 + 27500ms);
  ASSERT_THAT(out.now, SizeIs(1));
  EXPECT_FALSE(out.now[0].spare);
}

TEST(PodStops, TheMarginIsThePatienceAndTheTimeToExit) {
  State state;
  const auto stopping = pod({.clients = 1});
  EXPECT_EQ(step(state, std::span(&stopping, 1), kT0, {.stop_patience = 9s}).next, kT0 + 20500ms);
}

// Promise: stop: Clients that react to the signal are paused only if as much time is left to them after the pause.
TEST(PodStops, AskForAPauseWhereTheGraceLeavesTimeAndTheSignalFollows) {
  const auto asked = [](const StoppingPod& stopping, MonoTime now = kT0) {
    State state;
    const auto out = one(state, stopping, now);
    return out.now.size() == 1 && out.now[0].spare && out.now[0].pause;
  };
  EXPECT_TRUE(asked(pod({.clients = 1})));
  EXPECT_TRUE(asked(pod({.clients = 1}, 6500ms)));
  EXPECT_FALSE(asked(pod({.clients = 1}, 6499ms)));
  EXPECT_FALSE(asked(pod({.clients = 1, .own_hook = true}))) << "it is not known when the signal follows";
  EXPECT_TRUE(asked(pod({.clients = 1, .sleeps = 10s}), kT0 + 9700ms));
  State state;
  EXPECT_TRUE(one(state, pod({.clients = 1}), kT0).now[0].pause);
  ended(state, kKey, kFirst, false);
  EXPECT_FALSE(one(state, pod({.clients = 1}), kT0 + 2s).now[0].pause) << "the signal has come by now";
}

// Promise: stop: A container with our hook asks by itself.
TEST(PodStops, AContainerWithOurHookAsksByItselfUntilItsGraceEnds) {
  State state;
  const auto out = one(state, pod({.clients = 2, .hooked = true}), kT0);
  EXPECT_THAT(out.now, IsEmpty());
  EXPECT_EQ(out.next, kT0 + 27500ms);
}

// Promise: stop: A preStop sleep is left to end.
TEST(PodStops, APreStopSleepIsLeftToEnd) {
  State state;
  const auto stopping = pod({.clients = 1, .sleeps = 10s});
  const auto out = one(state, stopping, kT0);
  EXPECT_THAT(out.now, IsEmpty());
  EXPECT_EQ(out.next, kT0 + 9700ms) << "SIGTERM comes after the sleep";
  EXPECT_THAT(one(state, stopping, kT0 + 9700ms).now, SizeIs(1));
}

TEST(PodStops, WithoutClientsThereIsNothingToDoUntilThereAreSome) {
  State state;
  const auto none = one(state, pod({.clients = 0}), kT0);
  EXPECT_THAT(none.now, IsEmpty());
  EXPECT_EQ(none.next, std::nullopt);
  EXPECT_THAT(one(state, pod({.clients = 1}), kT0 + 1s).now, SizeIs(1));
}

TEST(PodStops, WhereTheClientsAreNotKnownTheyAreAskedFor) {
  State state;
  EXPECT_THAT(one(state, pod({.clients = std::nullopt}), kT0).now, SizeIs(1));
}

TEST(PodStops, StepsThatComeAgainAskNothingAgain) {
  State state;
  const auto stopping = pod({.clients = 1});
  EXPECT_THAT(one(state, stopping, kT0).now, SizeIs(1));
  EXPECT_THAT(one(state, stopping, kT0).now, IsEmpty());
  ended(state, kKey, kFirst, true);
  EXPECT_THAT(one(state, stopping, kT0 + 1s).now, IsEmpty());
}

// Promise: stop: A step that failed is tried once more.
TEST(PodStops, WhatFailedIsTriedOnceMore) {
  State state;
  const auto stopping = pod({.clients = 1});
  for (const bool which : {kFirst, kLast}) {
    const auto at = which == kFirst ? kT0 : kT0 + 28s;
    EXPECT_THAT(one(state, stopping, at).now, SizeIs(1));
    ended(state, kKey, which, false);
    EXPECT_THAT(one(state, stopping, at + 10ms).now, SizeIs(1));
    ended(state, kKey, which, false);
    EXPECT_THAT(one(state, stopping, at + 20ms).now, IsEmpty());
  }
  EXPECT_EQ(state.at(kKey).first.phase, Phase::kFailed);
  EXPECT_EQ(state.at(kKey).last.phase, Phase::kFailed);
}

TEST(PodStops, AShorterGraceCountsAndALongerOneDoesNot) {
  State state;
  EXPECT_EQ(one(state, pod({.clients = 1, .hooked = true}), kT0).next, kT0 + 27500ms);
  auto shorter = pod({.clients = 1, .hooked = true}, 5s);
  shorter.seen = kT0 + 2s;
  EXPECT_EQ(one(state, shorter, kT0 + 2s).next, kT0 + 4500ms);
  EXPECT_EQ(one(state, pod({.clients = 1, .hooked = true}, 60s), kT0 + 3s).next, kT0 + 4500ms);
}

// Promise: stop: A grace shorter than the margin spares no client.
TEST(PodStops, AGraceShorterThanTheMarginSparesNone) {
  State state;
  const auto out = one(state, pod({.clients = 1}, 2s), kT0);
  ASSERT_THAT(out.now, SizeIs(1));
  EXPECT_FALSE(out.now[0].spare);
}

// Promise: stop: A forced deletion spares no client.
TEST(PodStops, AForcedDeletionSparesNone) {
  State state;
  auto stopping = pod({.clients = 1, .hooked = true});
  EXPECT_THAT(one(state, stopping, kT0).now, IsEmpty());
  stopping.gone = true;
  const auto out = one(state, stopping, kT0 + 1s);
  ASSERT_THAT(out.now, SizeIs(1));
  EXPECT_FALSE(out.now[0].spare);
  EXPECT_EQ(out.now[0].reason, "the pod was deleted by force");
}

// Promise: stop: Each container of a pod is decided by itself.
TEST(PodStops, EveryContainerOfAPodIsDecidedByItself) {
  State state;
  auto stopping = pod({.clients = 1, .hooked = true});
  stopping.holdings.push_back({.container = "side", .pool = "gpu-2", .grant = "0000000000000001", .clients = 3});
  const auto out = one(state, stopping, kT0);
  ASSERT_THAT(out.now, SizeIs(1));
  EXPECT_EQ(out.now[0].container, "side");
  EXPECT_EQ(out.next, kT0 + 27500ms);
}

TEST(PodStops, APodThatIsGoneIsForgottenAndItsSlotsNextHolderIsNotTouched) {
  State state;
  (void)one(state, pod({.clients = 1}), kT0);
  const auto none = step(state, {}, kT0 + 1s);
  EXPECT_THAT(none.now, IsEmpty());
  EXPECT_EQ(none.next, std::nullopt);
  EXPECT_THAT(state, IsEmpty());
  ended(state, kKey, kFirst, true);  // a late response
  EXPECT_THAT(state, IsEmpty());
}

TEST(PodStops, TheNextStepIsNeverInThePast) {
  State state;
  for (MonoTime now = kT0; now < kT0 + 40s; now += 100ms) {
    const auto out = one(state, pod({.clients = 7, .sleeps = 4s}), now);
    EXPECT_GT(out.next.value_or(MonoTime::max()), now);
  }
}

// Seeded; the inputs change at random, and steps come when they are asked for or earlier.
// Promise: stop: All clients end before SIGKILL, and no request is made more than twice.
TEST(PodStops, WhateverTheInputsDoAllClientsAreEndedBeforeTheSigkillAndNoRequestComesMoreThanTwice) {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    std::mt19937 random(seed);
    const auto one_in = [&random](unsigned n) { return random() % n == 0; };
    State state;
    auto stopping = pod({.clients = 1 + random() % 20}, std::chrono::seconds(random() % 40));
    MonoTime kill_at = kT0 + stopping.grace;
    int firsts = 0, lasts = 0;
    std::vector<bool> open;
    for (MonoTime now = kT0; now <= kill_at;) {
      auto& holding = stopping.holdings[0];
      holding.hooked = one_in(4);
      holding.sleeps = one_in(3) ? 3s : 0s;
      if (one_in(10) && now + 6s < kill_at) {
        stopping.grace = kill_at - now - 3s;
        stopping.seen = now;
        kill_at = now + stopping.grace;
      }
      const auto out = one(state, stopping, now);
      for (const auto& each : out.now) {
        ++(each.spare ? firsts : lasts);
        open.push_back(each.spare);
      }
      if (!open.empty() && one_in(2)) {
        ended(state, kKey, open.back(), !one_in(4));
        open.pop_back();
      }
      const auto later = now + std::chrono::milliseconds(1 + random() % 900);
      now = out.next ? std::min(*out.next, later) : later;
    }
    EXPECT_GE(lasts, 1) << "seed " << seed;
    EXPECT_LE(lasts, 2) << "seed " << seed;
    EXPECT_LE(firsts, 2) << "seed " << seed;
  }
}

}  // namespace
}  // namespace tranche::stopping
