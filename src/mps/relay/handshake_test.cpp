#include "mps/relay/handshake.h"

#include <gmock/gmock.h>

namespace tranche::mps {
namespace gate_test {

using namespace std::chrono_literals;

constexpr int kPid = 4711;
constexpr GateSender kSelf{kPid, 1001, 1001};
const MonoTime kStart{100s};

class GateTest : public ::testing::Test {
 protected:
  GateAction say(std::string_view bytes, std::optional<GateSender> sender = kSelf, std::size_t descriptors = 0) {
    return step(passage_, GateEvent::kFromClient, {bytes, descriptors, false, sender}, now_, times_);
  }
  GateAction reply(std::string_view bytes, std::size_t descriptors = 0) {
    return step(passage_, GateEvent::kFromDaemon, {bytes, descriptors, false, {}}, now_, times_);
  }
  GateAction happens(GateEvent event) { return step(passage_, event, {}, now_, times_); }
  void until(GateStage stage) {
    if (passage_.stage == stage) return;
    say(kGateCredentials);
    if (passage_.stage == stage) return;
    say(kGateNewClient);
    if (passage_.stage == stage) return;
    happens(GateEvent::kConnected);
    if (passage_.stage == stage) return;
    reply(kGateHello);
    if (passage_.stage == stage) return;
    reply(kGateDescriptor, 1);
    if (passage_.stage == stage) return;
    say(kGateTaken);
  }
  void expect_end(GateEnd end) {
    EXPECT_EQ(passage_.stage, GateStage::kEnded);
    EXPECT_EQ(passage_.end, end) << to_string(passage_.end);
  }

  GateTimes times_;
  MonoTime now_ = kStart;
  Passage passage_ = begin_passage(kPid, kStart, times_);
};

// Promise: mps/relay: A client passes in the measured order of messages.
TEST_F(GateTest, AClientPassesInTheOrderThatWasMeasured) {
  EXPECT_EQ(say(kGateCredentials), GateAction::kNothing);
  EXPECT_EQ(passage_.client, kSelf);
  EXPECT_EQ(say(kGateNewClient), GateAction::kAskTurn);
  EXPECT_EQ(happens(GateEvent::kConnected), GateAction::kNothing);
  EXPECT_EQ(reply(kGateHello), GateAction::kIntroduce);
  EXPECT_EQ(reply(kGateDescriptor, 1), GateAction::kHandOver);
  EXPECT_TRUE(is_handshake(passage_));
  EXPECT_EQ(say(kGateTaken), GateAction::kLetIn);
  EXPECT_EQ(passage_.stage, GateStage::kIn);
  EXPECT_FALSE(is_handshake(passage_));
  EXPECT_FALSE(passage_.until);
  EXPECT_EQ(happens(GateEvent::kDaemonGone), GateAction::kEnd);
  expect_end(GateEnd::kDone);
}

// Promise: mps/relay: Only connections of type 2 become clients.
TEST_F(GateTest, OnlyNewClientsPassTheType) {
  for (unsigned type = 0; type < 256; ++type) {
    for (unsigned place = 0; place < 4; ++place) {
      passage_ = begin_passage(kPid, kStart, times_);
      say(kGateCredentials);
      std::string bytes(4, '\0');
      bytes[place] = static_cast<char>(type);
      const auto expected = bytes == kGateNewClient                    ? GateAction::kAskTurn
                            : bytes == std::string_view("\4\0\0\0", 4) ? GateAction::kNothing
                                                                       : GateAction::kEnd;
      EXPECT_EQ(say(bytes), expected) << type << " at " << place;
      EXPECT_EQ(passage_.stage == GateStage::kQuestions, expected == GateAction::kNothing);
    }
  }
}

TEST_F(GateTest, WhatWasTriedIsToldApart) {
  const std::map<std::string, GateEnd> ends{{std::string("\1\0\0\0", 4), GateEnd::kServer},
                                            {std::string("\11\0\0\0", 4), GateEnd::kOtherType},
                                            {"quit", GateEnd::kOtherType},
                                            {"get_server_list\n", GateEnd::kGarbled}};
  for (const auto& [bytes, end] : ends) {
    passage_ = begin_passage(kPid, kStart, times_);
    say(kGateCredentials);
    EXPECT_EQ(say(bytes), GateAction::kEnd);
    expect_end(end);
    EXPECT_TRUE(is_attempt(passage_.end));
  }
}

// Promise: mps/relay: A container may ask for its own share and nothing else.
TEST_F(GateTest, AContainerMayAskWhatItsShareIsAndNothingElse) {
  const std::string question = "get_default_active_thread_percentage\n" + std::string(1, '\0');
  const std::string length = std::string(1, static_cast<char>(question.size())) + std::string(7, '\0');
  const auto begin = [&] {
    passage_ = begin_passage(kPid, kStart, times_);
    say(kGateCredentials);
    say(std::string("\4\0\0\0", 4));
  };
  begin();
  for (unsigned i = 0; i < kMostQuestions; ++i) {
    EXPECT_EQ(say(length), GateAction::kNothing);
    EXPECT_EQ(say(question), GateAction::kAnswer) << i;
    EXPECT_EQ(passage_.question, GateQuestion{});
  }
  const auto asked = passage_;
  EXPECT_EQ(say(std::string(8, '\0')), GateAction::kFarewell);
  expect_end(GateEnd::kAsked);
  EXPECT_FALSE(is_attempt(passage_.end));
  passage_ = asked;
  EXPECT_EQ(say(length), GateAction::kEnd) << "one more than there may be";
  expect_end(GateEnd::kCommand);

  const std::string command = "quit\n" + std::string(1, '\0');
  begin();
  say(std::string(1, static_cast<char>(command.size())) + std::string(7, '\0'));
  EXPECT_EQ(say(command), GateAction::kEnd);
  expect_end(GateEnd::kCommand);
  EXPECT_TRUE(is_attempt(passage_.end));
  begin();
  say(length);
  EXPECT_EQ(say(question + " "), GateAction::kEnd) << "longer than announced";
  expect_end(GateEnd::kGarbled);
  begin();
  EXPECT_EQ(say(std::string(8, '\1')), GateAction::kEnd) << "too long";
  expect_end(GateEnd::kCommand);
  begin();
  EXPECT_EQ(step(passage_, GateEvent::kTimeUp, {}, kStart + times_.words, times_), GateAction::kEnd);
  expect_end(GateEnd::kMute);
}

TEST_F(GateTest, CredentialsOfAnotherProcessAreRefused) {
  EXPECT_EQ(say(kGateCredentials, GateSender{kPid + 1, 0, 0}), GateAction::kEnd);
  expect_end(GateEnd::kNotItself);
}

TEST_F(GateTest, CredentialsThatTheKernelDidNotAttachAreRefused) {
  EXPECT_EQ(say(kGateCredentials, std::nullopt), GateAction::kEnd);
  expect_end(GateEnd::kGarbled);
}

TEST_F(GateTest, AProcessThatIsNotVisibleHereIsStillLetIn) {
  passage_ = begin_passage(0, kStart, times_);
  EXPECT_EQ(say(kGateCredentials, GateSender{0, 0, 0}), GateAction::kNothing);
  EXPECT_EQ(say(kGateNewClient), GateAction::kAskTurn);
  EXPECT_EQ(passage_.client.pid, 0);
}

TEST_F(GateTest, DescriptorsAndCutMessagesOfAClientGoNowhere) {
  for (const auto stage : {GateStage::kCredentials, GateStage::kType, GateStage::kTaken}) {
    for (const bool cut : {false, true}) {
      passage_ = begin_passage(kPid, kStart, times_);
      until(stage);
      const auto bytes = stage == GateStage::kCredentials ? kGateCredentials
                         : stage == GateStage::kType      ? kGateNewClient
                                                          : kGateTaken;
      EXPECT_EQ(step(passage_, GateEvent::kFromClient, {bytes, cut ? 0u : 1u, cut, kSelf}, now_, times_),
                GateAction::kEnd);
      expect_end(GateEnd::kGarbled);
    }
  }
}

TEST_F(GateTest, NothingIsSaidWhileAClientWaitsOrOnceItIsIn) {
  for (const auto stage : {GateStage::kTurn, GateStage::kGreeting, GateStage::kServer, GateStage::kIn}) {
    for (const auto bytes : {kGateNewClient, kGateTaken, kGateCredentials, std::string_view{"\4\0\0\0", 4}}) {
      passage_ = begin_passage(kPid, kStart, times_);
      until(stage);
      ASSERT_EQ(passage_.stage, stage);
      EXPECT_EQ(say(bytes), GateAction::kEnd) << to_string(stage);
      expect_end(GateEnd::kGarbled);
    }
  }
}

TEST_F(GateTest, OnlyFourZeroBytesAcknowledge) {
  for (const auto bytes : {std::string_view{"\1\0\0\0", 4}, std::string_view{"\0\0\0\0\0", 5}, std::string_view{}}) {
    passage_ = begin_passage(kPid, kStart, times_);
    until(GateStage::kTaken);
    EXPECT_EQ(say(bytes), GateAction::kEnd);
    expect_end(GateEnd::kGarbled);
  }
}

TEST_F(GateTest, WhatTheDaemonSaysInsteadOfAServerIsTheClientsToRead) {
  until(GateStage::kServer);
  EXPECT_EQ(reply("something new"), GateAction::kToClient);
  EXPECT_EQ(passage_.stage, GateStage::kServer);
  EXPECT_EQ(happens(GateEvent::kDaemonGone), GateAction::kEnd);
  expect_end(GateEnd::kDaemonGone);
}

TEST_F(GateTest, ADaemonThatGreetsInOtherWordsIsNotTalkedTo) {
  until(GateStage::kGreeting);
  EXPECT_EQ(reply("OUTBHEL2"), GateAction::kEnd);
  expect_end(GateEnd::kOtherDaemon);
}

TEST_F(GateTest, EveryStageHasItsOwnPatience) {
  const std::vector<std::tuple<GateStage, Duration, GateEnd>> rows{
      {GateStage::kCredentials, times_.words, GateEnd::kMute},
      {GateStage::kType, times_.words, GateEnd::kMute},
      {GateStage::kTurn, times_.turn, GateEnd::kNotServed},
      {GateStage::kGreeting, times_.greeting, GateEnd::kDaemonMute},
      {GateStage::kServer, times_.server, GateEnd::kServerLate},
      {GateStage::kTaken, times_.taken, GateEnd::kStalled}};
  for (const auto& [stage, patience, end] : rows) {
    now_ = kStart;
    passage_ = begin_passage(kPid, kStart, times_);
    until(stage);
    ASSERT_EQ(passage_.until, kStart + patience) << to_string(stage);
    now_ = kStart + patience - 1ns;
    EXPECT_EQ(happens(GateEvent::kTimeUp), GateAction::kNothing);
    now_ = kStart + patience;
    EXPECT_EQ(happens(GateEvent::kTimeUp), GateAction::kEnd);
    expect_end(end);
  }
}

TEST_F(GateTest, AConnectionWhoseConnectorHasEndedIsRefusedAndNoAttempt) {
  for (const auto stage : {GateStage::kTurn, GateStage::kGreeting}) {
    passage_ = begin_passage(kPid, kStart, times_);
    until(stage);
    EXPECT_EQ(happens(GateEvent::kConnectorGone), GateAction::kEnd);
    expect_end(GateEnd::kAbandoned);
    EXPECT_FALSE(is_attempt(GateEnd::kAbandoned));
  }
}

TEST_F(GateTest, AServerThatStartsMayTakeLongerThanAClientMayStall) {
  EXPECT_EQ(times_.server, 30s);
  EXPECT_EQ(times_.taken, 2s);
}

TEST_F(GateTest, TheWordsTogetherHaveOneDeadline) {
  now_ = kStart + 3s;
  say(kGateCredentials);
  EXPECT_EQ(passage_.until, kStart + times_.words);
}

TEST_F(GateTest, ALookIsNoAttempt) {
  EXPECT_EQ(happens(GateEvent::kClientGone), GateAction::kEnd);
  expect_end(GateEnd::kLooked);
  EXPECT_FALSE(is_attempt(passage_.end));
}

TEST_F(GateTest, ADaemonThatHasDoneItsPartMayHangUpBeforeTheClientsWord) {
  until(GateStage::kTaken);
  EXPECT_EQ(happens(GateEvent::kDaemonGone), GateAction::kDropDaemon);
  EXPECT_EQ(say(kGateTaken), GateAction::kLetIn);
  EXPECT_EQ(passage_.stage, GateStage::kIn);
}

TEST_F(GateTest, BreakingOffWithTheServerIsAStallAlsoByHangingUp) {
  until(GateStage::kTaken);
  EXPECT_EQ(happens(GateEvent::kClientGone), GateAction::kEnd);
  expect_end(GateEnd::kStalled);
}

TEST_F(GateTest, LeavingIsToldApartFromHavingBeenLetIn) {
  until(GateStage::kServer);
  happens(GateEvent::kClientGone);
  expect_end(GateEnd::kLeft);
  passage_ = begin_passage(kPid, kStart, times_);
  until(GateStage::kIn);
  happens(GateEvent::kClientGone);
  expect_end(GateEnd::kDone);
}

TEST_F(GateTest, WithoutADaemonTheWaitingGoesOnUntilItsTimeIsUp) {
  until(GateStage::kTurn);
  const auto until_then = passage_.until;
  EXPECT_EQ(happens(GateEvent::kNoDaemon), GateAction::kNothing);
  EXPECT_EQ(passage_.stage, GateStage::kTurn);
  EXPECT_EQ(passage_.until, until_then);
}

TEST_F(GateTest, NothingFollowsTheEnd) {
  happens(GateEvent::kRefused);
  expect_end(GateEnd::kRefused);
  EXPECT_EQ(say(kGateCredentials), GateAction::kNothing);
  EXPECT_EQ(reply(kGateHello), GateAction::kNothing);
}

}  // namespace gate_test
}  // namespace tranche::mps
