// What the supervisor learns between two questions: servers and their limits, pings, sessions of other programs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mps/daemon/supervisor_fixture.h"

namespace tranche::mps {
namespace supervisor_watch_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

ServerSeen server_with(int pid, const DaemonLimits& limits, std::vector<int> clients = {}) {
  return {.pid = pid, .status = "ACTIVE", .clients = std::move(clients), .limits = limits};
}

// Of the only action, which sets them.
std::optional<DaemonLimits> set_by(const Rig& rig) {
  const auto* action = rig.last.size() == 1 ? std::get_if<Ask>(&rig.last[0]) : nullptr;
  return action != nullptr && action->set ? std::optional(action->limits) : std::nullopt;
}

TEST(Supervisor, SetsTheNewLimitsOfARunningServerAndReadsThemBackBeforeItServes) {
  Rig rig = serving();
  rig.wake().answer({server_with(12, kRead, {101, 102})});
  rig.feed(Want{kOther}).answer({server_with(12, kRead, {101, 102})});
  EXPECT_EQ(set_by(rig), kOther);
  EXPECT_NE(rig.s.state, State::kServing);
  rig.feed(Answered{{server_with(12, kReadOther, {101, 102})}, kReadOther});
  ASSERT_EQ(rig.s.state, State::kServing);
  EXPECT_EQ(rig.s.reason, "");
}

// Promise: mps/limits/limits: A server that does not take its limits is named.
TEST(Supervisor, SaysThatAServerDoesNotTakeLimits) {
  Rig rig = serving();
  rig.feed(Want{kOther}).answer({server_with(12, kRead)});
  for (int i = 0; i < 2; ++i) rig.read(kReadOther);
  ASSERT_EQ(rig.s.state, State::kServing);
  EXPECT_THAT(rig.s.reason, HasSubstr("apply to new servers; started before under other limits: server 12"));
  rig.wake().answer({server_with(12, kRead)});
  EXPECT_EQ(rig.s.state, State::kServing) << "asked over and over";
  rig.wake().answer({server_with(14, kReadOther)});
  EXPECT_EQ(rig.s.reason, "");
}

TEST(Supervisor, MendsAServerWhoseLimitsSomebodyChanged) {
  Rig rig = serving();
  rig.wake().answer({server_with(12, kReadOther)});
  EXPECT_EQ(rig.s.state, State::kConfiguring);
  EXPECT_EQ(set_by(rig), kLimits);
  rig.answer({server_with(12, kRead)});
  EXPECT_EQ(rig.s.state, State::kServing);
}

TEST(Supervisor, ComparesServersWithTheLimitsOfTheTurnAndMendsThemToThose) {
  Rig rig = serving();
  rig.feed(AdmissionLimitsSet{kOther, kReadOther}).wake().answer({server_with(12, kReadOther, {101})});
  EXPECT_EQ(rig.s.state, State::kServing);
  EXPECT_THAT(rig.last, IsEmpty());
  rig.wake().answer({server_with(12, kRead, {101})});
  EXPECT_EQ(rig.s.state, State::kConfiguring);
  EXPECT_EQ(set_by(rig), kOther);
  rig.answer({server_with(12, kReadOther, {101})});
  EXPECT_EQ(rig.s.state, State::kServing);
}

TEST(Supervisor, KeepsTheLimitsOfATurnWhileItsOwnChange) {
  Rig rig = serving();
  rig.feed(AdmissionLimitsSet{kOther, kReadOther});
  const DaemonLimits third{{{kA, mib(7188)}}, Percent{500}};
  rig.feed(Want{third}).answer();
  ASSERT_THAT(names(rig.last), ElementsAre("apply"));
  EXPECT_EQ(std::get<Ask>(rig.last.back()).limits, kOther) << "a client may be connecting";
  rig.read(kReadOther);
  EXPECT_EQ(rig.s.state, State::kServing);
}

TEST(Supervisor, WhereItIsNotKnownWhatServersHoldThereIsNothingToMend) {
  Rig rig = serving();
  rig.feed(AdmissionLimitsSet{kOther, kReadOther}).feed(AdmissionLimitsUnknown{"they read back otherwise"});
  EXPECT_THAT(rig.s.reason, HasSubstr("a grant's limits could not be set: they read back otherwise"));
  EXPECT_EQ(*wake_at(rig.s), rig.now) << "whether it answers is asked at once";
  rig.wake().answer({server_with(12, kReadOther)});
  EXPECT_EQ(rig.s.state, State::kServing);
  EXPECT_THAT(rig.s.reason, HasSubstr("could not be set"));
  rig.feed(AdmissionLimitsSet{kLimits, kRead});
  EXPECT_EQ(rig.s.reason, "");
}

TEST(Supervisor, ANewDaemonHasThePoolsOwnLimits) {
  Rig rig = serving();
  rig.feed(AdmissionLimitsSet{kOther, kReadOther})
      .feed(DaemonExited{"exited with status 1"})
      .wake()
      .feed(Spawned{})
      .answer();
  EXPECT_EQ(names(rig.last).back(), "apply");
  EXPECT_EQ(std::get<Ask>(rig.last.back()).limits, kLimits);
}

Rig greeted() {
  return serving().feed(Pinged{});
}

TEST(Supervisor, PingsADaemonThatGreetsAndLeavesServingWhenItDoesNot) {
  Rig rig = greeted();
  const MonoTime served = rig.now;
  rig.wake();
  EXPECT_EQ(names(rig.last), std::vector<std::string>{"ping"});
  EXPECT_EQ(rig.now - served, rig.settings.rest_ping_every);
  rig.feed(Pinged{});
  EXPECT_EQ(rig.s.state, State::kServing);
  rig.wake().feed(Pinged{std::unexpected(kMute)});
  EXPECT_EQ(rig.s.state, State::kStarting);
  EXPECT_EQ(daemon_state(rig.s), "mute");
  EXPECT_THAT(rig.s.reason, HasSubstr("does not answer"));
  rig.wake().answer().read(kRead);
  EXPECT_EQ(rig.s.state, State::kServing);
  EXPECT_EQ(daemon_state(rig.s), "running");
}

TEST(Supervisor, FindsAMuteDaemonWithinASecondAndABitLaterWhileItHasNoClient) {
  const SupervisorSettings settings;
  EXPECT_LT(settings.ping_every + settings.ping_deadline, 1s);
  EXPECT_LT(settings.rest_ping_every + settings.ping_deadline, 1500ms);
}

// Promise: mps/daemon: A pool without clients asks its daemon seldom, and at once more often when one comes.
TEST(Supervisor, AsksSeldomWhileNoServerHasAClient) {
  Rig rig = serving();
  rig.wake().answer({server_with(12, kRead)});
  EXPECT_EQ(*wake_at(rig.s) - rig.now, rig.settings.health_every) << "only its answers show that it lives";
  rig.feed(Pinged{});
  rig.s.ping_at.reset();
  rig.wake().answer({server_with(12, kRead)});
  EXPECT_EQ(*wake_at(rig.s) - rig.now, rig.settings.rest_every);
  rig.feed(Look{rig.settings.health_every});
  EXPECT_EQ(*wake_at(rig.s) - rig.now, rig.settings.health_every);
  rig.wake().answer({server_with(12, kRead, {101})});
  EXPECT_EQ(*wake_at(rig.s) - rig.now, rig.settings.health_every);
  rig.feed(Pinged{});
  EXPECT_LE(*wake_at(rig.s) - rig.now, rig.settings.ping_every);
  rig.feed(PingSkipped{}).wake().feed(Pinged{});
  EXPECT_EQ(rig.s.state, State::kServing);
}

TEST(Supervisor, AServerThatStartsEndsTheRest) {
  Rig rig = greeted();
  rig.s.ping_at.reset();
  rig.wake().answer();
  EXPECT_EQ(*wake_at(rig.s) - rig.now, rig.settings.rest_every);
  rig.feed(ServerLogged{12, "INITIALIZING"});
  EXPECT_EQ(*wake_at(rig.s) - rig.now, rig.settings.health_every);
  rig.wake().answer({{.pid = 12, .status = "INITIALIZING", .clients = {}, .limits = kRead}});
  EXPECT_EQ(*wake_at(rig.s) - rig.now, rig.settings.health_every) << "who starts one is about to be its client";
}

// Promise: mps/daemon: A daemon that never greeted is not called mute for that.
TEST(Supervisor, DoesNotBlameADaemonThatNeverGreeted) {
  Rig rig = serving();
  rig.feed(Pinged{std::unexpected(kMute)});
  EXPECT_EQ(rig.s.state, State::kServing);
  EXPECT_FALSE(rig.s.greets);
  rig.wake();
  EXPECT_EQ(names(rig.last), std::vector<std::string>{"ask"}) << "the slower way is left";
}

TEST(Supervisor, TakesASkippedPingForNothing) {
  Rig rig = greeted();
  rig.wake().feed(PingSkipped{});
  EXPECT_EQ(rig.s.state, State::kServing);
  rig.wake();
  EXPECT_EQ(names(rig.last), std::vector<std::string>{"ping"});
}

TEST(Supervisor, LooksAtItsClientsAtOnceWhenSomebodyWaitsForThemToLeave) {
  Rig rig = serving();
  rig.feed(Look{}).feed(Tick{});
  EXPECT_EQ(names(rig.last), std::vector<std::string>{"ask"});
  rig.feed(Look{}).feed(Tick{});
  EXPECT_EQ(names(rig.last), std::vector<std::string>{}) << "one question at a time";
}

TEST(Supervisor, DoesNotCountWaitingForATurnAsSilence) {
  Rig rig = serving();
  rig.wake().pass(30s).feed(Tick{});
  EXPECT_EQ(rig.s.state, State::kServing);
  rig.pass(30s).feed(Tick{});
  EXPECT_EQ(rig.s.state, State::kStarting);
}

// Promise: mps/control: A session that a foreign process holds is tried again and the pool serves on.
TEST(Supervisor, ServesOnWhileSomebodyElseHoldsTheSession) {
  Rig rig = serving();
  rig.wake().failed(Error{Kind::kConflict, "somebody else", "", 0});
  EXPECT_EQ(rig.s.state, State::kServing);
  EXPECT_THAT(rig.s.reason, HasSubstr("a different process holds the MPS control daemon's one session"));
  rig.wake().answer();
  EXPECT_EQ(rig.s.reason, "");
}

TEST(Supervisor, ReplacesADaemonThatDoesNotDoItsWork) {
  Rig rig = serving();
  rig.feed(Replace{"CUDA starts hang"});
  EXPECT_EQ(names(rig.last), std::vector<std::string>{"kill"});
  EXPECT_EQ(rig.s.state, State::kBackingOff);
  EXPECT_EQ(rig.s.reason, "CUDA starts hang");
  EXPECT_EQ(daemon_state(rig.s), "stopping");
  rig.feed(DaemonExited{"was killed by signal 9 (Killed)"}).wake();
  EXPECT_EQ(names(rig.last), std::vector<std::string>{"spawn"});
}

TEST(Supervisor, DoesNotBringBackAServerThatEndedWhileItWasAskedAbout) {
  Rig rig = serving();
  rig.wake().feed(ServerLogged{12, ""}).answer({server_with(12, kRead), server_with(13, kRead)});
  ASSERT_EQ(rig.s.servers.size(), 1u);
  EXPECT_EQ(rig.s.servers[0].pid, 13);
  rig.wake().answer({server_with(12, kRead)});  // the pid is reused
  EXPECT_EQ(rig.s.servers[0].pid, 12);
}

// Promise: mps/daemon: A server in a fatal fault leaves service at once.
TEST(Supervisor, HearsOfServersFromTheLog) {
  Rig rig = serving();
  rig.feed(ServerLogged{12, "INITIALIZING"});
  ASSERT_EQ(rig.s.servers.size(), 1u);
  EXPECT_EQ(rig.s.servers[0].status, "INITIALIZING");
  rig.feed(ServerLogged{12, "ACTIVE"});
  EXPECT_EQ(rig.s.servers[0].status, "ACTIVE");
  rig.feed(ServerLogged{12, "FAULT"});
  EXPECT_THAT(rig.s.reason, HasSubstr("handles a fatal GPU error"));
  EXPECT_LE(*wake_at(rig.s), rig.now + rig.settings.fault_every);
  rig.feed(ServerLogged{12, ""});
  EXPECT_THAT(rig.s.servers, IsEmpty());
}

}  // namespace supervisor_watch_test
}  // namespace tranche::mps
