#include "mps/relay/relay.h"

#include <gmock/gmock.h>

#include <string>

namespace tranche::mps {
namespace relay_turns_test {

using ::testing::Eq;
using ::testing::Optional;

// With one map of kinds for each test.
struct Turns : RelayTurns {
  Turns() : RelayTurns([this](const std::string& grant) { return kinds[grant]; }) {}
  std::map<std::string, std::string> kinds;
};

// With the daemon from its introduction on.
void connect(RelayTurns& turns, std::uint64_t id) {
  ASSERT_THAT(turns.next(), Optional(Eq(id)));
  turns.connected(id);
}

TEST(RelayTurns, OneIsConnectedAfterTheOther) {
  Turns turns;
  turns.wait(1, "a");
  turns.wait(2, "b");
  EXPECT_THAT(turns.next(), Optional(Eq(1u)));
  EXPECT_EQ(turns.next(), std::nullopt);
  turns.connected(1);
  EXPECT_THAT(turns.next(), Optional(Eq(2u)));
}

TEST(RelayTurns, OfOneGrantOnlyOneClientIsWithTheDaemon) {
  Turns turns;
  for (std::uint64_t id : {1, 2}) turns.wait(id, "a");
  connect(turns, 1);
  EXPECT_EQ(turns.next(), std::nullopt);
  turns.leave(1);
  EXPECT_THAT(turns.next(), Optional(Eq(2u)));
}

TEST(RelayTurns, AGrantWithManyClientsDoesNotHoldUpTheOthers) {
  Turns turns;
  for (std::uint64_t id = 1; id <= 16; ++id) turns.wait(id, "many");
  connect(turns, 1);
  turns.wait(17, "one");
  turns.leave(1);
  EXPECT_THAT(turns.next(), Optional(Eq(17u)));
}

// Promise: mps/relay: A client waits for its server behind one other at most.
TEST(RelayTurns, FewAreWithTheDaemonAtOnce) {
  Turns turns;
  for (std::uint64_t id = 1; id <= 5; ++id) turns.wait(id, std::to_string(id));
  for (std::uint64_t id = 1; id <= RelayTurns::kMostWithDaemon; ++id) connect(turns, id);
  EXPECT_EQ(turns.next(), std::nullopt);
  EXPECT_TRUE(turns.others_wait());
  turns.leave(2);
  EXPECT_THAT(turns.next(), Optional(Eq(3u)));
}

TEST(RelayTurns, WithoutADaemonItIsFirstAgain) {
  Turns turns;
  turns.wait(1, "a");
  turns.wait(2, "b");
  ASSERT_THAT(turns.next(), Optional(Eq(1u)));
  turns.back(1);
  // Its grant had the most recent turn, so the other one tries; no client is lost.
  const auto first = turns.next();
  ASSERT_TRUE(first);
  turns.connected(*first);
  EXPECT_TRUE(turns.next());
}

// Promise: mps/limits/limits: Only grants with equal limits are with the daemon together.
TEST(RelayTurns, OnlyGrantsOfOneKindAreWithTheDaemonTogether) {
  Turns turns;
  for (const char* grant : {"small", "also small"}) turns.kinds[grant] = "5 %";
  turns.kinds["large"] = "50 %";
  turns.wait(1, "small");
  turns.wait(2, "also small");
  turns.wait(3, "large");
  connect(turns, 1);
  connect(turns, 2);
  EXPECT_EQ(turns.next(), std::nullopt);
  turns.leave(1);
  EXPECT_EQ(turns.next(), std::nullopt);
  turns.leave(2);
  EXPECT_THAT(turns.next(), Optional(Eq(3u)));
}

TEST(RelayTurns, NobodyGoesBeforeOneThatWaitsForAnotherKindToLeave) {
  Turns turns;
  for (const char* grant : {"a", "b", "c"}) turns.kinds[grant] = "5 %";
  turns.kinds["large"] = "50 %";
  turns.wait(1, "a");
  connect(turns, 1);
  turns.wait(2, "large");
  turns.wait(3, "b");
  turns.wait(4, "c");
  EXPECT_EQ(turns.next(), std::nullopt);
  turns.leave(1);
  connect(turns, 2);
  EXPECT_EQ(turns.next(), std::nullopt) << "and the others wait for it in their turn";
  turns.leave(2);
  connect(turns, 3);
  connect(turns, 4);
}

TEST(RelayTurns, AKindThatChangesCountsFromTheNextTurnOn) {
  Turns turns;
  turns.kinds["a"] = "5 %";
  turns.kinds["b"] = "50 %";
  turns.wait(1, "a");
  connect(turns, 1);
  turns.kinds["a"] = "50 %";
  turns.wait(2, "b");
  EXPECT_EQ(turns.next(), std::nullopt) << "the one that is in has 5 %";
  turns.leave(1);
  connect(turns, 2);
  turns.wait(3, "a");
  connect(turns, 3);
}

TEST(RelayTurns, WhoLeavesTheQueueIsNotAskedFor) {
  Turns turns;
  turns.wait(1, "a");
  turns.leave(1);
  turns.leave(1);
  EXPECT_EQ(turns.next(), std::nullopt);
  EXPECT_FALSE(turns.others_wait());
}

}  // namespace relay_turns_test
}  // namespace tranche::mps
