#include "mps/relay/handshake.h"

#include <gmock/gmock.h>

namespace tranche::mps {
namespace relay_test {

using namespace std::chrono_literals;

constexpr int kPid = 4711;
constexpr RelaySender kSelf{kPid, 1001, 1001};
const MonoTime kStart{100s};

class RelayTest : public ::testing::Test {
 protected:
  RelayAction say(std::string_view bytes, std::optional<RelaySender> sender = kSelf, std::size_t descriptors = 0) {
    return step(passage_, RelayEvent::kFromClient,
                {std::string(bytes), std::vector<os::Fd>(descriptors), false, sender}, now_, times_);
  }
  RelayAction reply(std::string_view bytes, std::size_t descriptors = 0) {
    return step(passage_, RelayEvent::kFromDaemon, {std::string(bytes), std::vector<os::Fd>(descriptors), false, {}},
                now_, times_);
  }
  RelayAction happens(RelayEvent event) { return step(passage_, event, {}, now_, times_); }
  void until(RelayStage stage) {
    if (passage_.stage == stage) return;
    say(kRelayCredentials);
    if (passage_.stage == stage) return;
    say(kRelayNewClient);
    if (passage_.stage == stage) return;
    happens(RelayEvent::kConnected);
    if (passage_.stage == stage) return;
    reply(kRelayHello);
    if (passage_.stage == stage) return;
    reply(kRelayDescriptor, 1);
    if (passage_.stage == stage) return;
    exchange();
    say(kRelayTaken);
  }
  RelayAction server_says(std::string_view bytes) {
    return step(passage_, RelayEvent::kServerSaid, {.bytes = std::string(bytes)}, now_, times_);
  }
  void until_taken() {
    passage_ = begin_passage({kPid}, kStart, times_);
    until(RelayStage::kTaken);
  }
  void greet() {
    for (std::size_t i = 0; i < kExchangeDescriptors; ++i) server_says(kRelayDescriptor);
    server_says(kExchangeGreeted);
  }
  RelayAction exchange() {
    greet();
    for (int i = 0; i < 3; ++i) happens(RelayEvent::kClientSaid);
    return server_says(kExchangeAnswer);
  }
  void expect_end(RelayEnd end) {
    EXPECT_EQ(passage_.stage, RelayStage::kEnded);
    EXPECT_EQ(passage_.end, end) << to_string(passage_.end);
  }

  RelayTimes times_;
  MonoTime now_ = kStart;
  Passage passage_ = begin_passage({kPid}, kStart, times_);
};

// Promise: mps/relay: A client passes in the measured order of messages.
TEST_F(RelayTest, AClientPassesInTheOrderThatWasMeasured) {
  EXPECT_EQ(say(kRelayCredentials), RelayAction::kNothing);
  EXPECT_EQ(passage_.client, kSelf);
  EXPECT_EQ(say(kRelayNewClient), RelayAction::kAskTurn);
  EXPECT_EQ(happens(RelayEvent::kConnected), RelayAction::kNothing);
  EXPECT_EQ(reply(kRelayHello), RelayAction::kIntroduce);
  EXPECT_EQ(reply(kRelayDescriptor, 1), RelayAction::kHandOver);
  EXPECT_EQ(passage_.stage, RelayStage::kTaken);
  EXPECT_EQ(say(kRelayTaken), RelayAction::kNothing);
  EXPECT_EQ(exchange(), RelayAction::kLetIn);
  EXPECT_EQ(passage_.stage, RelayStage::kIn);
  EXPECT_FALSE(passage_.until);
  EXPECT_EQ(happens(RelayEvent::kDaemonGone), RelayAction::kEnd);
  expect_end(RelayEnd::kLeft);
}

// Promise: mps/relay: Only connections of type 2 become clients.
TEST_F(RelayTest, OnlyNewClientsPassTheType) {
  for (unsigned type = 0; type < 256; ++type) {
    for (unsigned place = 0; place < 4; ++place) {
      passage_ = begin_passage({kPid}, kStart, times_);
      say(kRelayCredentials);
      std::string bytes(4, '\0');
      bytes[place] = static_cast<char>(type);
      const auto expected = bytes == kRelayNewClient                   ? RelayAction::kAskTurn
                            : bytes == std::string_view("\4\0\0\0", 4) ? RelayAction::kNothing
                                                                       : RelayAction::kEnd;
      EXPECT_EQ(say(bytes), expected) << type << " at " << place;
      EXPECT_EQ(passage_.stage == RelayStage::kQuestions, expected == RelayAction::kNothing);
    }
  }
}

TEST_F(RelayTest, WhatWasTriedIsDistinguished) {
  const std::map<std::string, RelayEnd> ends{{std::string("\1\0\0\0", 4), RelayEnd::kServer},
                                             {std::string("\11\0\0\0", 4), RelayEnd::kOtherType},
                                             {"quit", RelayEnd::kOtherType},
                                             {"get_server_list\n", RelayEnd::kGarbled}};
  for (const auto& [bytes, end] : ends) {
    passage_ = begin_passage({kPid}, kStart, times_);
    say(kRelayCredentials);
    EXPECT_EQ(say(bytes), RelayAction::kEnd);
    expect_end(end);
    EXPECT_TRUE(is_attempt(passage_.end));
  }
}

// Promise: mps/relay: A container may ask for its own share and nothing else.
TEST_F(RelayTest, AContainerMayAskWhatItsShareIsAndNothingElse) {
  const std::string question = "get_default_active_thread_percentage\n" + std::string(1, '\0');
  const std::string length = std::string(1, static_cast<char>(question.size())) + std::string(7, '\0');
  const auto begin = [&] {
    passage_ = begin_passage({kPid}, kStart, times_);
    say(kRelayCredentials);
    say(std::string("\4\0\0\0", 4));
  };
  begin();
  for (unsigned i = 0; i < kMostQuestions; ++i) {
    EXPECT_EQ(say(length), RelayAction::kNothing);
    EXPECT_EQ(say(question), RelayAction::kAnswer) << i;
    EXPECT_EQ(passage_.question, RelayQuestion{});
  }
  const auto asked = passage_;
  EXPECT_EQ(say(std::string(8, '\0')), RelayAction::kFarewell);
  expect_end(RelayEnd::kLeft);
  EXPECT_FALSE(is_attempt(passage_.end));
  passage_ = asked;
  EXPECT_EQ(say(length), RelayAction::kEnd) << "one more than there may be";
  expect_end(RelayEnd::kCommand);

  const std::string command = "quit\n" + std::string(1, '\0');
  begin();
  say(std::string(1, static_cast<char>(command.size())) + std::string(7, '\0'));
  EXPECT_EQ(say(command), RelayAction::kEnd);
  expect_end(RelayEnd::kCommand);
  EXPECT_TRUE(is_attempt(passage_.end));
  begin();
  say(length);
  EXPECT_EQ(say(question + " "), RelayAction::kEnd) << "longer than announced";
  expect_end(RelayEnd::kGarbled);
  begin();
  EXPECT_EQ(say(std::string(8, '\1')), RelayAction::kEnd) << "too long";
  expect_end(RelayEnd::kCommand);
  begin();
  EXPECT_EQ(step(passage_, RelayEvent::kTimeUp, {}, kStart + times_.words, times_), RelayAction::kEnd);
  expect_end(RelayEnd::kMute);
}

TEST_F(RelayTest, CredentialsOfAnotherProcessAreRefused) {
  EXPECT_EQ(say(kRelayCredentials, RelaySender{kPid + 1, 0, 0}), RelayAction::kEnd);
  expect_end(RelayEnd::kNotItself);
}

TEST_F(RelayTest, CredentialsThatTheKernelDidNotAttachAreRefused) {
  EXPECT_EQ(say(kRelayCredentials, std::nullopt), RelayAction::kEnd);
  expect_end(RelayEnd::kGarbled);
}

TEST_F(RelayTest, AProcessThatIsNotVisibleHereIsStillLetIn) {
  passage_ = begin_passage({0}, kStart, times_);
  EXPECT_EQ(say(kRelayCredentials, RelaySender{0, 0, 0}), RelayAction::kNothing);
  EXPECT_EQ(say(kRelayNewClient), RelayAction::kAskTurn);
  EXPECT_EQ(passage_.client.pid, 0);
}

TEST_F(RelayTest, DescriptorsAndCutMessagesOfAClientGoNowhere) {
  for (const auto stage : {RelayStage::kCredentials, RelayStage::kType, RelayStage::kTaken}) {
    for (const bool cut : {false, true}) {
      passage_ = begin_passage({kPid}, kStart, times_);
      until(stage);
      if (stage == RelayStage::kTaken) server_says(kRelayDescriptor);
      const auto bytes = stage == RelayStage::kCredentials ? kRelayCredentials
                         : stage == RelayStage::kType      ? kRelayNewClient
                                                           : kRelayTaken;
      EXPECT_EQ(step(passage_, RelayEvent::kFromClient,
                     {std::string(bytes), std::vector<os::Fd>(cut ? 0 : 1), cut, kSelf}, now_, times_),
                RelayAction::kEnd);
      expect_end(RelayEnd::kGarbled);
    }
  }
}

TEST_F(RelayTest, NothingIsSaidWhileAClientWaitsOrOnceItIsIn) {
  for (const auto stage : {RelayStage::kTurn, RelayStage::kGreeting, RelayStage::kIn}) {
    for (const auto bytes : {kRelayNewClient, kRelayTaken, kRelayCredentials, std::string_view{"\4\0\0\0", 4}}) {
      passage_ = begin_passage({kPid}, kStart, times_);
      until(stage);
      ASSERT_EQ(passage_.stage, stage);
      EXPECT_EQ(say(bytes), RelayAction::kEnd) << static_cast<int>(stage);
      expect_end(RelayEnd::kGarbled);
    }
  }
}

// The daemon may have sent the server's socket already. Without it, nothing completes the client's exchange.
TEST_F(RelayTest, AClientThatSaysTooMuchWhileTheDaemonLooksForAServerIsOneThatHungUp) {
  until(RelayStage::kServer);
  EXPECT_EQ(say("x"), RelayAction::kNothing);
  EXPECT_TRUE(passage_.client_gone);
  EXPECT_EQ(happens(RelayEvent::kClientGone), RelayAction::kNothing);
  EXPECT_EQ(
      step(passage_, RelayEvent::kFromDaemon, {std::string(kRelayDescriptor), std::vector<os::Fd>(1)}, now_, times_),
      RelayAction::kHandOver);
}

TEST_F(RelayTest, OnlyFourZeroBytesAcknowledge) {
  for (const auto bytes : {std::string_view{"\1\0\0\0", 4}, std::string_view{"\0\0\0\0\0", 5}, std::string_view{}}) {
    until_taken();
    server_says(kRelayDescriptor);
    EXPECT_EQ(say(bytes), RelayAction::kEnd);
    expect_end(RelayEnd::kGarbled);
  }
}

TEST_F(RelayTest, WhatTheDaemonSaysInsteadOfAServerIsTheClientsToRead) {
  until(RelayStage::kServer);
  EXPECT_EQ(reply("something new"), RelayAction::kToClient);
  EXPECT_EQ(passage_.stage, RelayStage::kServer);
  EXPECT_EQ(happens(RelayEvent::kDaemonGone), RelayAction::kEnd);
  expect_end(RelayEnd::kDaemonGone);
}

TEST_F(RelayTest, ADaemonThatGreetsInOtherWordsIsNotTalkedTo) {
  until(RelayStage::kGreeting);
  EXPECT_EQ(reply("OUTBHEL2"), RelayAction::kEnd);
  expect_end(RelayEnd::kOtherDaemon);
  passage_ = begin_passage({kPid}, kStart, times_);
  until(RelayStage::kServer);
  EXPECT_EQ(reply(kRelayDescriptor, 2), RelayAction::kEnd);
  expect_end(RelayEnd::kOtherDaemon);
}

TEST_F(RelayTest, EveryStageHasItsOwnPatience) {
  const std::vector<std::tuple<RelayStage, Duration, RelayEnd>> rows{
      {RelayStage::kCredentials, times_.words, RelayEnd::kMute},
      {RelayStage::kType, times_.words, RelayEnd::kMute},
      {RelayStage::kTurn, times_.turn, RelayEnd::kNotServed},
      {RelayStage::kGreeting, times_.greeting, RelayEnd::kDaemonMute},
      {RelayStage::kServer, times_.server, RelayEnd::kServerLate},
      {RelayStage::kTaken, times_.greeting, RelayEnd::kServerLate}};
  for (const auto& [stage, patience, end] : rows) {
    now_ = kStart;
    passage_ = begin_passage({kPid}, kStart, times_);
    until(stage);
    ASSERT_EQ(passage_.until, kStart + patience) << static_cast<int>(stage);
    now_ = kStart + patience - 1ns;
    EXPECT_EQ(happens(RelayEvent::kTimeUp), RelayAction::kNothing);
    now_ = kStart + patience;
    EXPECT_EQ(happens(RelayEvent::kTimeUp), RelayAction::kEnd);
    expect_end(end);
  }
}

TEST_F(RelayTest, AConnectionWhoseConnectorHasEndedIsRefusedAndNoAttempt) {
  for (const auto stage : {RelayStage::kTurn, RelayStage::kGreeting}) {
    passage_ = begin_passage({kPid}, kStart, times_);
    until(stage);
    EXPECT_EQ(ended(passage_, RelayEnd::kAbandoned), RelayAction::kEnd);
    expect_end(RelayEnd::kAbandoned);
    EXPECT_FALSE(is_attempt(RelayEnd::kAbandoned));
  }
}

TEST_F(RelayTest, AServerThatStartsMayTakeLongerThanAClientMayStall) {
  EXPECT_EQ(times_.server, 30s);
  EXPECT_EQ(times_.exchange, 100ms);
}

TEST_F(RelayTest, TheWordsTogetherHaveOneDeadline) {
  now_ = kStart + 3s;
  say(kRelayCredentials);
  EXPECT_EQ(passage_.until, kStart + times_.words);
}

TEST_F(RelayTest, ALookIsNoAttempt) {
  EXPECT_EQ(happens(RelayEvent::kClientGone), RelayAction::kEnd);
  expect_end(RelayEnd::kLeft);
  EXPECT_FALSE(is_attempt(passage_.end));
}

TEST_F(RelayTest, HangingUpBreaksOffAnExchangeThatIsNotKnown) {
  until(RelayStage::kTaken);
  server_says("welcome");
  EXPECT_EQ(happens(RelayEvent::kClientGone), RelayAction::kEnd);
  expect_end(RelayEnd::kBrokeOff);
}

// Promise: mps/relay: A client is admitted by its server's answer, and not by its own confirmation.
TEST_F(RelayTest, TheServersAnswerAdmitsAClientAndItsOwnWordDoesNot) {
  until_taken();
  EXPECT_EQ(say(kRelayTaken), RelayAction::kNothing);
  EXPECT_EQ(passage_.stage, RelayStage::kTaken);
  greet();
  EXPECT_EQ(server_says(kExchangeAnswer), RelayAction::kNothing) << "the client has said nothing yet";
  for (int i = 0; i < 3; ++i) EXPECT_EQ(happens(RelayEvent::kClientSaid), RelayAction::kNothing);
  EXPECT_EQ(server_says("more"), RelayAction::kNothing);
  EXPECT_EQ(server_says(kExchangeAnswer), RelayAction::kLetIn);
  EXPECT_EQ(passage_.stage, RelayStage::kIn);
  EXPECT_TRUE(passage_.exchange.over && passage_.exchange.missing().empty());
}

// The daemon hangs up once the relay has confirmed, the client after its own confirmation.
TEST_F(RelayTest, TheConnectionEndsWithTheClientsWordAndTheDaemonsEndInEitherOrder) {
  using enum RelayEvent;
  for (const bool word_first : {false, true}) {
    for (const bool daemon_first : {false, true}) {
      until_taken();
      if (daemon_first) {
        EXPECT_EQ(happens(kDaemonGone), RelayAction::kDropDaemon);
      }
      if (word_first) say(kRelayTaken);
      EXPECT_EQ(exchange(), RelayAction::kLetIn);
      RelayAction last = RelayAction::kNothing;
      if (!word_first) last = say(kRelayTaken);
      if (!daemon_first || word_first) last = happens(kDaemonGone);
      EXPECT_EQ(last, RelayAction::kEnd);
      expect_end(RelayEnd::kLeft);
    }
  }
  until_taken();
  exchange();
  now_ = kStart + times_.words;
  EXPECT_EQ(happens(kTimeUp), RelayAction::kEnd) << "a word that never comes keeps no connection";
  expect_end(RelayEnd::kLeft);
}

TEST_F(RelayTest, WhatTheServerStillNeedsIsWhatItsClientHasNotSaid) {
  until_taken();
  EXPECT_EQ(passage_.exchange.missing().size(), 3u);
  for (const std::size_t left : {2u, 1u, 0u, 0u}) {
    happens(RelayEvent::kClientSaid);
    EXPECT_EQ(passage_.exchange.missing().size(), left);
  }
  until_taken();
  server_says(kRelayDescriptor);
  EXPECT_EQ(happens(RelayEvent::kClientBrokeOff), RelayAction::kEnd);
  expect_end(RelayEnd::kLeft);
  EXPECT_EQ(passage_.exchange.missing().front(), kRelayCredentials);
}

// Promise: mps/relay: The relay completes the exchange of a client that is late, and admits the client.
TEST_F(RelayTest, TheExchangeOfAClientThatIsLateIsCompletedAndTheClientIsAdmitted) {
  until_taken();
  now_ = kStart + 5s;
  greet();
  EXPECT_EQ(passage_.until, kStart + 5s + times_.exchange)
      << "the client's time begins with the server's first message";
  happens(RelayEvent::kClientSaid);
  now_ = *passage_.until;
  EXPECT_EQ(happens(RelayEvent::kTimeUp), RelayAction::kComplete);
  EXPECT_TRUE(may_wait(passage_, now_, times_)) << "where no others wait";
  EXPECT_EQ(passage_.until, now_ + times_.exchange);
  now_ = kStart + 5s + times_.alone;
  EXPECT_EQ(happens(RelayEvent::kTimeUp), RelayAction::kComplete);
  EXPECT_FALSE(may_wait(passage_, now_, times_));
  EXPECT_EQ(passage_.exchange.missing().size(), 2u);
  EXPECT_EQ(passage_.until, now_ + times_.greeting);
  passage_.exchange.from_relay = 2;
  EXPECT_THAT(passage_.exchange.missing(), ::testing::IsEmpty());
  EXPECT_EQ(server_says(kExchangeAnswer), RelayAction::kLetIn);
  happens(RelayEvent::kClientSaid);
  EXPECT_EQ(step(passage_, RelayEvent::kClientSaid, {.bytes = "\7\0\0\0"}, now_, times_), RelayAction::kNothing);
  EXPECT_EQ(passage_.exchange.context, 0u) << "the server has another number";
  EXPECT_EQ(say(kRelayTaken), RelayAction::kNothing);
  EXPECT_EQ(happens(RelayEvent::kDaemonGone), RelayAction::kEnd);
  expect_end(RelayEnd::kLeft);
}

TEST_F(RelayTest, TheNumberOfAContextIsWrittenAsTheServerReadsIt) {
  for (const std::uint32_t number : {0u, 1u, 0x1234u}) {
    passage_.exchange.from_client = kExchangeSaysContext;
    EXPECT_EQ(for_server(passage_, context_text(number)), context_text(number));
    step(passage_, RelayEvent::kClientSaid, {.bytes = std::string(context_text(number))}, now_, times_);
    EXPECT_EQ(passage_.exchange.context, number);
  }
}

TEST_F(RelayTest, AClientMayLowerItsPriorityAndNotRaiseIt) {
  passage_.exchange.from_client = kExchangeSaysPriority;
  const std::string_view not_set = kExchangeOfClient[kExchangeSaysPriority];
  for (const std::string_view bytes : {not_set, kNormalPriority, kLowPriority}) {
    EXPECT_EQ(for_server(passage_, bytes), bytes);
  }
  for (const std::string_view bytes : {"\xff\xff\xff\xff", "\2\2\2\2", "\1", "\1\1\1\1\1"}) {
    EXPECT_EQ(for_server(passage_, bytes), not_set);
  }
  EXPECT_EQ(for_server(passage_, ""), std::nullopt);
  passage_.exchange.foreign = true;
  EXPECT_EQ(for_server(passage_, "\1"), "\1") << "the messages of another driver are not known";
}

TEST_F(RelayTest, AServerThatDoesNotAnswerIsNotItsClientsFault) {
  for (const bool late : {false, true}) {
    now_ = kStart;
    until_taken();
    greet();
    now_ += late ? times_.exchange : 1ms;
    if (late) {
      EXPECT_EQ(happens(RelayEvent::kTimeUp), RelayAction::kComplete);
      EXPECT_EQ(passage_.until, now_ + times_.greeting);
      passage_.exchange.from_relay = kExchangeOfClient.size();
    }
    for (int i = 0; !late && i < 3; ++i) happens(RelayEvent::kClientSaid);
    EXPECT_EQ(passage_.until, now_ + times_.greeting);
    now_ = *passage_.until;
    happens(RelayEvent::kTimeUp);
    expect_end(RelayEnd::kServerLate);
  }
}

TEST_F(RelayTest, WhereAServerSpeaksOtherwiseTheClientsWordAdmitsIt) {
  for (const bool word_first : {false, true}) {
    until_taken();
    happens(RelayEvent::kClientSaid);
    if (word_first) {
      EXPECT_EQ(say(kRelayTaken), RelayAction::kNothing);
    }
    EXPECT_EQ(server_says("welcome"), word_first ? RelayAction::kLetIn : RelayAction::kNothing);
    if (!word_first) {
      EXPECT_EQ(say(kRelayTaken), RelayAction::kLetIn);
    }
    EXPECT_EQ(happens(RelayEvent::kDaemonGone), RelayAction::kDropDaemon);
    EXPECT_EQ(happens(RelayEvent::kClientGone), RelayAction::kDropDaemon) << "the rest may still pass";
    EXPECT_TRUE(passage_.exchange.missing().empty());
    EXPECT_EQ(happens(RelayEvent::kServerGone), RelayAction::kEnd);
    expect_end(RelayEnd::kLeft);
  }
}

TEST_F(RelayTest, AServerThatIsSilentOrHangsUpIsNotItsClientsFault) {
  until_taken();
  now_ = kStart + times_.greeting - 1ns;
  EXPECT_EQ(happens(RelayEvent::kTimeUp), RelayAction::kNothing) << "it may serve others first";
  now_ = kStart + times_.greeting;
  happens(RelayEvent::kTimeUp);
  expect_end(RelayEnd::kServerLate);
  now_ = kStart;
  for (const bool left : {false, true}) {
    until_taken();
    if (left) {
      EXPECT_EQ(happens(RelayEvent::kClientBrokeOff), RelayAction::kNothing);
    }
    EXPECT_EQ(happens(RelayEvent::kServerGone), left ? RelayAction::kEnd : RelayAction::kNothing);
    if (!left) {
      EXPECT_EQ(say(kRelayTaken), RelayAction::kEnd);
      expect_end(RelayEnd::kServerLate);
    }
  }
}

// Promise: mps/relay: A client that leaves before the daemon has a server for it does not leave that server stuck.
TEST_F(RelayTest, AClientThatLeavesWhileTheDaemonLooksForAServerIsHandedOverAllTheSame) {
  until(RelayStage::kServer);
  EXPECT_EQ(happens(RelayEvent::kClientGone), RelayAction::kNothing);
  EXPECT_EQ(reply(kRelayDescriptor, 1), RelayAction::kHandOver);
  EXPECT_EQ(happens(RelayEvent::kClientGone), RelayAction::kNothing);
  EXPECT_EQ(server_says(kRelayDescriptor), RelayAction::kEnd);
  expect_end(RelayEnd::kLeft);
  EXPECT_EQ(passage_.exchange.missing().size(), kExchangeOfClient.size());
}

TEST_F(RelayTest, AClientThatLeavesADaemonWithoutAServerHasLeft) {
  until(RelayStage::kServer);
  happens(RelayEvent::kClientGone);
  EXPECT_EQ(reply("busy"), RelayAction::kToClient);
  EXPECT_EQ(happens(RelayEvent::kClientGone), RelayAction::kNothing);
  happens(RelayEvent::kDaemonGone);
  expect_end(RelayEnd::kLeft);
  passage_ = begin_passage({kPid}, kStart, times_);
  until(RelayStage::kServer);
  happens(RelayEvent::kClientGone);
  now_ = *passage_.until;
  happens(RelayEvent::kTimeUp);
  expect_end(RelayEnd::kLeft);
}

TEST_F(RelayTest, NothingFollowsTheEnd) {
  ended(passage_, RelayEnd::kRefused);
  expect_end(RelayEnd::kRefused);
  EXPECT_EQ(say(kRelayCredentials), RelayAction::kNothing);
  EXPECT_EQ(reply(kRelayHello), RelayAction::kNothing);
}

}  // namespace relay_test
}  // namespace tranche::mps
