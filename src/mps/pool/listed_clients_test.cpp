// Which process a pid of a server's list identifies, with simulated processes.
#include "mps/pool/pool_daemon.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "os/clock/clock.h"

namespace tranche::mps {
namespace {

class Listed : public ::testing::Test {
 protected:
  std::map<pid_t, std::uint64_t> started_;  // the living processes
  ListedClients listed_{[this](pid_t pid) {
    const auto found = started_.find(pid);
    return found == started_.end() ? std::nullopt : std::optional(os::ProcessRef{pid, found->second});
  }};
};

TEST_F(Listed, APidIsTheProcessThatHadItWhenItWasListedFirst) {
  started_[7] = 100;
  listed_.heard(500, {7});
  EXPECT_EQ(listed_.find(7), (os::ProcessRef{7, 100}));
  started_[7] = 300;  // the pid is reused
  EXPECT_EQ(listed_.find(7), std::nullopt);
  EXPECT_TRUE(listed_.has(7));
}

TEST_F(Listed, APidThatWasGivenAgainIsNoClientUntilAListIsWithoutIt) {
  started_[7] = 100;
  listed_.heard(500, {7});
  started_[7] = 300;
  listed_.heard(600, {7});
  EXPECT_EQ(listed_.find(7), std::nullopt);
  listed_.heard(700, {});
  EXPECT_FALSE(listed_.has(7));
  listed_.heard(800, {7});
  EXPECT_EQ(listed_.find(7), (os::ProcessRef{7, 300}));
}

TEST_F(Listed, AProcessThatStartedAfterTheQuestionIsLookedAtInTheNextList) {
  started_[7] = 501;
  listed_.heard(500, {7});
  EXPECT_EQ(listed_.find(7), std::nullopt);
  EXPECT_FALSE(listed_.has(7));
  listed_.heard(600, {7});
  EXPECT_EQ(listed_.find(7), (os::ProcessRef{7, 501}));
}

TEST_F(Listed, AProcessWhoseEndWasSeenIsNoClientAnyMore) {
  started_[7] = 100;
  listed_.heard(500, {7, 7});
  listed_.ended(7);
  EXPECT_EQ(listed_.find(7), std::nullopt);
  listed_.heard(600, {7});
  EXPECT_EQ(listed_.find(7), std::nullopt) << "the server still means the one that ended";
}

TEST_F(Listed, AnEndThatWasSeenBeforeTheFirstListCounts) {
  listed_.ended(7);
  started_[7] = 100;
  listed_.heard(500, {7});
  EXPECT_EQ(listed_.find(7), std::nullopt);
  listed_.heard(600, {});
  listed_.heard(700, {7});
  EXPECT_EQ(listed_.find(7), (os::ProcessRef{7, 100}));
}

TEST_F(Listed, OfAProcessThatIsGoneNothingIsKnown) {
  listed_.heard(500, {9});
  EXPECT_EQ(listed_.find(9), std::nullopt);
  started_[9] = 200;
  listed_.heard(600, {9});
  EXPECT_EQ(listed_.find(9), std::nullopt) << "it was listed before this process was seen";
}

TEST(BootTicks, AreOnTheClockOfAProcessStart) {
  const auto self = os::process_ref(::getpid());
  ASSERT_TRUE(self);
  EXPECT_LE(self->start_ticks, os::boot_ticks());
  EXPECT_GT(self->start_ticks + 100 * 3600, os::boot_ticks()) << "this test runs for less than an hour";
}

}  // namespace
}  // namespace tranche::mps
