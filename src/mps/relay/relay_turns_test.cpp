#include "mps/relay/relay.h"

#include <gmock/gmock.h>

#include <string>

namespace tranche::mps {
namespace relay_turns_test {

using ::testing::Eq;
using ::testing::Optional;

TEST(RelayTurns, OneIsWithTheDaemonAfterTheOther) {
  RelayTurns turns;
  turns.wait(1, "a");
  turns.wait(2, "b");
  EXPECT_THAT(turns.next(), Optional(Eq(1u)));
  EXPECT_EQ(turns.next(), std::nullopt);
  EXPECT_TRUE(turns.others_wait());
  turns.leave(1);
  EXPECT_THAT(turns.next(), Optional(Eq(2u)));
  EXPECT_FALSE(turns.others_wait());
}

TEST(RelayTurns, AGrantWithManyClientsDoesNotHoldUpTheOthers) {
  RelayTurns turns;
  for (std::uint64_t id = 1; id <= 16; ++id) turns.wait(id, "many");
  ASSERT_THAT(turns.next(), Optional(Eq(1u)));
  turns.wait(17, "one");
  turns.leave(1);
  EXPECT_THAT(turns.next(), Optional(Eq(17u)));
  turns.leave(17);
  EXPECT_THAT(turns.next(), Optional(Eq(2u)));
}

TEST(RelayTurns, WithoutADaemonItIsFirstAgain) {
  RelayTurns turns;
  for (std::uint64_t id : {1, 2}) turns.wait(id, "a");
  ASSERT_THAT(turns.next(), Optional(Eq(1u)));
  turns.back(1);
  turns.wait(3, "b");
  EXPECT_THAT(turns.next(), Optional(Eq(3u))) << "its grant has had the most recent turn";
  turns.leave(3);
  EXPECT_THAT(turns.next(), Optional(Eq(1u)));
}

TEST(RelayTurns, WhoLeavesTheQueueIsNotAskedFor) {
  RelayTurns turns;
  turns.wait(1, "a");
  turns.leave(1);
  turns.leave(1);
  EXPECT_EQ(turns.next(), std::nullopt);
  EXPECT_FALSE(turns.others_wait());
}

}  // namespace relay_turns_test
}  // namespace tranche::mps
