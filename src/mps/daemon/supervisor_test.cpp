#include "mps/daemon/supervisor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "mps/daemon/supervisor_fixture.h"

namespace tranche::mps {
namespace supervisor_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Row {
  const char* arrow;
  std::function<Rig()> from;
  std::function<void(Rig&)> event;
  State to;
  std::vector<std::string> actions;
};

// Promise: mps/daemon: Each transition of the supervisor follows its table.
TEST(Supervisor, EveryArrow) {
  const std::vector<Row> rows{
      {"absent, start → spawn", absent, [](Rig& r) { r.feed(Want{kLimits}); }, State::kStarting, {"spawn"}},
      {"absent, stop → nothing to stop", absent, [](Rig& r) { r.feed(StopAsked{}); }, State::kAbsent, {}},
      {"absent, spawned too late → stopped", absent, [](Rig& r) { r.feed(Spawned{}); }, State::kStopping, {"quit"}},
      {"spawning, spawned → asked", spawning, [](Rig& r) { r.feed(Spawned{}); }, State::kStarting, {"ask"}},
      {"spawning, a daemon from before → asked",
       spawning,
       [](Rig& r) { r.feed(Spawned{true}); },
       State::kStarting,
       {"ask"}},
      {"spawning, could not → back-off",
       spawning,
       [](Rig& r) { r.feed(Spawned{std::unexpected(kNoFork)}); },
       State::kBackingOff,
       {}},
      {"spawning, no event → back-off", spawning, [](Rig& r) { r.wake(); }, State::kBackingOff, {}},
      {"spawning, stop → absent", spawning, [](Rig& r) { r.feed(StopAsked{}); }, State::kAbsent, {}},
      {"starting, answers → configuring", starting, [](Rig& r) { r.answer(); }, State::kConfiguring, {"ping", "apply"}},
      {"starting, not yet → waits", starting, [](Rig& r) { r.failed(kMute); }, State::kStarting, {}},
      {"starting, waited → asks again", starting, [](Rig& r) { r.failed(kMute).wake(); }, State::kStarting, {"ask"}},
      {"starting, mute too long → killed",
       starting,
       [](Rig& r) { r.pass(15s).failed(kMute); },
       State::kBackingOff,
       {"kill"}},
      {"starting, exits → back-off",
       starting,
       [](Rig& r) { r.feed(DaemonExited{"exited with status 1"}); },
       State::kBackingOff,
       {}},
      {"starting, stop → stopping", starting, [](Rig& r) { r.feed(StopAsked{}); }, State::kStopping, {"quit"}},
      {"starting, new limits → taken up later", starting, [](Rig& r) { r.feed(Want{kOther}); }, State::kStarting, {}},
      {"adopted, same limits → serving untouched",
       adopted,
       [](Rig& r) { r.read(kRead); },
       State::kServing,
       {"ping", "open-endpoints"}},
      {"adopted, other limits → applied",
       adopted,
       [](Rig& r) { r.read(kReadOther); },
       State::kConfiguring,
       {"ping", "apply"}},
      {"adopted, mute for a while → left alone",
       adopted,
       [](Rig& r) { r.pass(20s).failed(kMute); },
       State::kStarting,
       {}},
      {"adopted, mute too long → killed",
       adopted,
       [](Rig& r) { r.pass(30s).failed(kMute); },
       State::kBackingOff,
       {"kill"}},
      {"applying, refused → killed", applying, [](Rig& r) { r.failed(kMute); }, State::kBackingOff, {"kill"}},
      {"applying, exits → back-off",
       applying,
       [](Rig& r) { r.feed(DaemonExited{"exited with status 1"}); },
       State::kBackingOff,
       {}},
      {"applying, new limits → from the top",
       applying,
       [](Rig& r) { r.feed(Want{kOther}); },
       State::kConfiguring,
       {"ask"}},
      {"applying, stop → stopping", applying, [](Rig& r) { r.feed(StopAsked{}); }, State::kStopping, {"quit"}},
      {"applying, read back as set → serving",
       applying,
       [](Rig& r) { r.read(kRead); },
       State::kServing,
       {"open-endpoints"}},
      {"applying, reads back something else → killed",
       applying,
       [](Rig& r) { r.read(kReadOther); },
       State::kBackingOff,
       {"kill"}},
      {"serving, time → asked", serving, [](Rig& r) { r.wake(); }, State::kServing, {"ask"}},
      {"serving, answers → serving", serving, [](Rig& r) { r.wake().answer(); }, State::kServing, {}},
      {"serving, mute → not serving, not killed",
       serving,
       [](Rig& r) { r.wake().failed(kMute); },
       State::kStarting,
       {}},
      {"serving, answer lost → not serving", serving, [](Rig& r) { r.wake().wake(); }, State::kStarting, {}},
      {"serving, exits → back-off",
       serving,
       [](Rig& r) { r.feed(DaemonExited{"was killed by signal 9 (Killed)"}); },
       State::kBackingOff,
       {}},
      {"serving, same limits → nothing", serving, [](Rig& r) { r.feed(Want{kLimits}); }, State::kServing, {}},
      {"serving, new limits → configuring",
       serving,
       [](Rig& r) { r.feed(Want{kOther}); },
       State::kConfiguring,
       {"ask"}},
      {"serving, stop → stopping", serving, [](Rig& r) { r.feed(StopAsked{}); }, State::kStopping, {"quit"}},
      {"reconfiguring, refused → kept, with its clients",
       serving,
       [](Rig& r) { r.feed(Want{kOther}).answer().failed(kMute); },
       State::kBackingOff,
       {}},
      {"reconfiguring, refused, later → asked",
       serving,
       [](Rig& r) { r.feed(Want{kOther}).answer().failed(kMute).wake(); },
       State::kStarting,
       {"ask"}},
      {"mute, answers again → limits applied again",
       mute,
       [](Rig& r) { r.wake().answer(); },
       State::kConfiguring,
       {"apply"}},
      {"mute, exits → back-off",
       mute,
       [](Rig& r) { r.feed(DaemonExited{"exited with status 0"}); },
       State::kBackingOff,
       {}},
      {"mute too long → killed", mute, [](Rig& r) { r.wake().pass(30s).failed(kMute); }, State::kBackingOff, {"kill"}},
      {"we cannot ask → never killed for that",
       mute,
       [](Rig& r) { r.wake().pass(1h).failed(kNoFork); },
       State::kStarting,
       {}},
      {"back-off, over → spawn", backing_off, [](Rig& r) { r.wake(); }, State::kStarting, {"spawn"}},
      {"back-off, too early → waits", backing_off, [](Rig& r) { r.pass(1ms).feed(Tick{}); }, State::kBackingOff, {}},
      {"back-off, stop → absent", backing_off, [](Rig& r) { r.feed(StopAsked{}); }, State::kAbsent, {}},
      {"back-off, still dying → killed again",
       starting,
       [](Rig& r) { r.pass(15s).failed(kMute).wake(); },
       State::kBackingOff,
       {"kill"}},
      {"stopping, exits → absent",
       stopping,
       [](Rig& r) { r.feed(DaemonExited{"exited with status 0"}); },
       State::kAbsent,
       {}},
      {"stopping, quit is not enough → SIGKILL", stopping, [](Rig& r) { r.wake(); }, State::kStopping, {"kill"}},
      {"stopping, SIGKILL is not enough → again",
       stopping,
       [](Rig& r) { r.wake().wake(); },
       State::kStopping,
       {"kill"}},
      {"stopping, quit refused → waits for the timer", stopping, [](Rig& r) { r.failed(kMute); }, State::kStopping, {}},
      {"stopping, stop again → nothing", stopping, [](Rig& r) { r.feed(StopAsked{}); }, State::kStopping, {}},
      {"stopping, start → nothing", stopping, [](Rig& r) { r.feed(Want{kOther}); }, State::kStopping, {}},
      {"given up, time → still", given_up, [](Rig& r) { r.pass(24h).feed(Tick{}); }, State::kGivenUp, {}},
      {"given up, new limits → spawn", given_up, [](Rig& r) { r.feed(Want{kOther}); }, State::kStarting, {"spawn"}},
      {"given up, stop → absent", given_up, [](Rig& r) { r.feed(StopAsked{}); }, State::kAbsent, {}},
  };
  for (const auto& row : rows) {
    Rig rig = row.from();
    row.event(rig);
    EXPECT_EQ(to_string(rig.s.state), to_string(row.to)) << row.arrow << ": " << rig.s.reason;
    EXPECT_EQ(names(rig.last), row.actions) << row.arrow;
  }
}

TEST(Supervisor, ServesOnlyAfterLimitsWereAppliedAndReadBack) {
  Rig rig = starting();
  rig.answer();
  ASSERT_THAT(names(rig.last), ElementsAre("ping", "apply"));
  EXPECT_EQ(std::get<Ask>(rig.last.back()).limits, kLimits);
  EXPECT_NE(rig.s.state, State::kServing);
  rig.read(kRead);
  EXPECT_EQ(rig.s.state, State::kServing);
  EXPECT_EQ(rig.s.read_back, kRead);
}

TEST(Supervisor, SaysWhichLimitIsNotInForce) {
  const Rig rig = applying().read({{{kA, gib(13)}}, Percent::whole(10)});
  EXPECT_THAT(rig.s.reason, HasSubstr("the limits are not in effect: the memory limit of " + kA +
                                      " was set to 14377M and reads back as \"13G\" (expected 14G)"));
}

TEST(Supervisor, SaysThatAServerHandlesAFault) {
  Rig rig = serving();
  rig.wake().answer({{12, "FAULT", {101}}});
  EXPECT_EQ(rig.s.state, State::kServing);
  EXPECT_THAT(rig.s.reason, HasSubstr("server 12 handles a fatal GPU error"));
  rig.wake().answer({{12, "ACTIVE", {}}});
  EXPECT_EQ(rig.s.reason, "");
}

TEST(Supervisor, IgnoresAnswersToQuestionsThatAreNotOpen) {
  Rig rig = starting();
  rig.failed(kMute);
  const Supervisor before = rig.s;
  rig.feed(Answered{});
  EXPECT_EQ(rig.s, before);
}

// Promise: mps/daemon: Back-off between starts grows within its bounds.
TEST(Supervisor, BacksOffLongerEachTimeWithinItsBounds) {
  Rig rig = spawning();
  rig.settings.start_limit = 100;
  for (int failure = 1; failure <= 20; ++failure) {
    rig.feed(Spawned{std::unexpected(kNoFork)});
    ASSERT_EQ(rig.s.state, State::kBackingOff);
    const Duration delay = *wake_at(rig.s) - rig.now;
    const Duration plain = std::min<Duration>(rig.settings.backoff_first * (1ll << std::min(failure - 1, 20)),
                                              rig.settings.backoff_longest);
    EXPECT_EQ(delay, plain) << failure;
    rig.wake();
  }
}

TEST(Supervisor, ForgetsFailuresOnceItServedForAWhile) {
  Rig rig = backing_off();
  EXPECT_EQ(rig.s.failures, 1);
  rig.wake().feed(Spawned{}).answer().read(kRead);
  ASSERT_EQ(rig.s.state, State::kServing);
  EXPECT_EQ(rig.s.failures, 1);
  rig.pass(61s).feed(Tick{}).answer();
  EXPECT_EQ(rig.s.failures, 0);
  EXPECT_EQ(rig.s.restarts, 1u);
}

// Promise: mps/daemon: The pool gives up after ten failures in a row and states why.
TEST(Supervisor, GivesUpAfterTheStartLimitAndSaysWhy) {
  const Rig rig = given_up();
  EXPECT_EQ(rig.s.failures, rig.settings.start_limit);
  EXPECT_THAT(rig.s.reason, HasSubstr("given up after 10 failures in a row; the last: the MPS control daemon cannot be "
                                      "started: cannot start a process"));
  EXPECT_FALSE(wake_at(rig.s));
}

TEST(Supervisor, EachStepOfAStopHasItsOwnPatience) {
  Rig rig = stopping();
  EXPECT_EQ(wake_at(rig.s), rig.now + rig.settings.quit_patience + rig.settings.exit_patience);
  for (int again = 0; again < 2; ++again) {
    rig.wake();
    EXPECT_EQ(wake_at(rig.s), rig.now + rig.settings.kill_again);
  }
}

TEST(Supervisor, AStopTakesBackAStartThatCameWhileItStops) {
  Rig rig = stopping();
  rig.feed(Want{kOther}).feed(StopAsked{}).feed(DaemonExited{"exited with status 0"});
  EXPECT_EQ(rig.s.state, State::kAbsent);
}

TEST(Supervisor, AnAdoptedDaemonGetsLimitsThatChangedMeanwhile) {
  Rig rig = adopted();
  rig.feed(Want{kOther});
  EXPECT_THAT(names(rig.answer().last), ::testing::Contains("apply"));
}

TEST(Supervisor, LeavesServingAtTheFirstQuestionWithoutAnswer) {
  const Rig rig = mute();
  EXPECT_NE(rig.s.state, State::kServing);
  EXPECT_THAT(rig.s.reason, HasSubstr("its clients run on, and it is restarted when it stays mute for 30.0 s"));
}

}  // namespace supervisor_test
}  // namespace tranche::mps
