#include "mps/pool/pool_life.h"

#include <gmock/gmock.h>

#include <random>

namespace tranche::mps {
namespace pool_life_test {

using enum LifeState;
using enum LifeEvent;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Actions = std::vector<LifeAction>;

class PoolLifeTest : public ::testing::Test {
 protected:
  Actions feed(LifeEvent event, const std::string& why = {}) { return step(life_, event, facts_, why); }
  void serve() {
    feed(kPlanChanged);
    feed(kModesSet);
    facts_.has_daemon = true;
    ASSERT_EQ(life_.state, kServing);
  }

  PoolLife life_;
  LifeFacts facts_;
};

TEST_F(PoolLifeTest, ADaemonStartsOnceTheModesAreSet) {
  EXPECT_THAT(feed(kPlanChanged), ElementsAre(LifeAction::kSetModes));
  EXPECT_THAT(feed(kFacts), IsEmpty());
  EXPECT_THAT(feed(kModesSet), ElementsAre(LifeAction::kStart));
  EXPECT_EQ(life_.state, kServing);
}

TEST_F(PoolLifeTest, APoolWaitsAndSaysForWhat) {
  facts_.waits = "containers hold GPU-1";
  EXPECT_THAT(feed(kPlanChanged), IsEmpty());
  EXPECT_EQ(life_.reason, facts_.waits);
  facts_.waits.clear();
  EXPECT_THAT(feed(kFacts), ElementsAre(LifeAction::kSetModes));
  facts_.waits = "containers hold GPU-1";  // since the modes are being set
  EXPECT_THAT(feed(kModesSet), IsEmpty());
  EXPECT_EQ(life_.state, kWaiting);
}

TEST_F(PoolLifeTest, AFailedStartIsRetried) {
  feed(kPlanChanged);
  EXPECT_THAT(feed(kStartFailed, "no permission"), ElementsAre(LifeAction::kRetryLater, LifeAction::kDiscard));
  EXPECT_EQ(life_.state, kFailed);
  EXPECT_EQ(life_.reason, "no permission");
  EXPECT_THAT(feed(kFacts), IsEmpty());
  EXPECT_THAT(feed(kRetry), ElementsAre(LifeAction::kSetModes));
  EXPECT_EQ(life_.reason, "");
}

TEST_F(PoolLifeTest, ADaemonServesOnWhenANewModeCannotBeSet) {
  serve();
  EXPECT_THAT(feed(kPlanChanged), ElementsAre(LifeAction::kSetModes));
  EXPECT_THAT(feed(kStartFailed, "the driver does not answer"), ElementsAre(LifeAction::kRetryLater));
  EXPECT_EQ(life_.state, kServing);
  EXPECT_EQ(life_.reason, "the driver does not answer");
  EXPECT_THAT(feed(kRetry), ElementsAre(LifeAction::kSetModes));
  EXPECT_THAT(feed(kModesSet), ElementsAre(LifeAction::kStart));
}

// Promise: mps/pools: A pool that is no longer planned ends when its last client has left.
TEST_F(PoolLifeTest, APoolThatIsNotPlannedServesItsUsersAndThenEnds) {
  serve();
  facts_.planned = false;
  facts_.users = "client has left";
  EXPECT_THAT(feed(kFacts), IsEmpty());
  EXPECT_EQ(life_.state, kDraining);
  EXPECT_THAT(life_.reason, HasSubstr("when its last client has left"));
  facts_.users.clear();
  EXPECT_THAT(feed(kFacts), ElementsAre(LifeAction::kStop));
  EXPECT_THAT(feed(kFacts), IsEmpty());
  facts_.has_daemon = false;
  EXPECT_THAT(feed(kFacts), ElementsAre(LifeAction::kDiscard));
  EXPECT_EQ(life_.state, kEnded);
}

TEST_F(PoolLifeTest, APoolThatIsPlannedAgainServesOn) {
  serve();
  facts_.planned = false;
  facts_.users = "client has left";
  feed(kFacts);
  facts_.planned = true;
  EXPECT_THAT(feed(kFacts), IsEmpty());
  EXPECT_EQ(life_.state, kServing);
  EXPECT_EQ(life_.reason, "");
}

TEST_F(PoolLifeTest, APoolThatIsPlannedAgainWhileItEndsStartsAgainWhenItIsGone) {
  serve();
  facts_.planned = false;
  EXPECT_THAT(feed(kFacts), ElementsAre(LifeAction::kStop));
  facts_.planned = true;
  EXPECT_THAT(feed(kPlanChanged), IsEmpty());
  facts_.has_daemon = false;
  EXPECT_THAT(feed(kFacts), ElementsAre(LifeAction::kDiscard, LifeAction::kSetModes));
}

TEST_F(PoolLifeTest, AForcedChangeEndsItsClientsFirst) {
  serve();
  facts_ = {.planned = false, .forced = true, .users = "client has left", .has_daemon = true};
  EXPECT_THAT(feed(kFacts), ElementsAre(LifeAction::kEndClients));
  EXPECT_THAT(feed(kFacts), IsEmpty());
  EXPECT_THAT(feed(kClientsEnded), ElementsAre(LifeAction::kStop));
}

TEST_F(PoolLifeTest, APoolThatIsPlannedAgainDuringAForcedChangeAdmitsClientsAgain) {
  serve();
  facts_ = {.planned = false, .forced = true, .users = "client has left", .has_daemon = true};
  feed(kFacts);
  facts_.planned = true;
  EXPECT_THAT(feed(kPlanChanged), IsEmpty());
  EXPECT_THAT(feed(kClientsEnded), ElementsAre(LifeAction::kReopen, LifeAction::kSetModes));
  EXPECT_EQ(life_.state, kServing);
}

TEST_F(PoolLifeTest, ItYieldsToContainersThatHeldItsGpusOnlyWhileItIsNotUsed) {
  serve();
  facts_.held = true;
  facts_.waits = "containers hold GPU-1";
  facts_.users = "client has left";
  EXPECT_THAT(feed(kFacts), IsEmpty());
  facts_.users.clear();
  EXPECT_THAT(feed(kFacts), ElementsAre(LifeAction::kStop));
  facts_.has_daemon = false;
  EXPECT_THAT(feed(kFacts), ElementsAre(LifeAction::kDiscard));
  EXPECT_EQ(life_.state, kWaiting);
  EXPECT_EQ(life_.reason, facts_.waits);
}

TEST_F(PoolLifeTest, ADaemonOfAnotherTierIsReplaced) {
  serve();
  facts_.replace = true;
  EXPECT_THAT(feed(kFacts), ElementsAre(LifeAction::kStop));
  facts_.has_daemon = facts_.replace = false;
  EXPECT_THAT(feed(kFacts), ElementsAre(LifeAction::kDiscard, LifeAction::kSetModes));
}

TEST_F(PoolLifeTest, AProgramThatEndsStopsItsDaemonAtOnce) {
  serve();
  facts_.closing = true;
  facts_.users = "client has left";
  EXPECT_THAT(feed(kFacts), ElementsAre(LifeAction::kStop));
}

TEST_F(PoolLifeTest, AProgramThatEndsWaitsForTheModesThatItSets) {
  feed(kPlanChanged);
  facts_.closing = true;
  feed(kFacts);
  EXPECT_EQ(life_.state, kPreparing);
  feed(kModesSet);
  EXPECT_EQ(life_.state, kEnded);
}

// What a pool's surroundings do, in any order.
class World {
 public:
  explicit World(std::uint32_t seed) : random_(seed) {}

  void run(int steps) {
    for (int i = 0; i < steps && life_.state != kEnded; ++i) happen(static_cast<int>(random_() % 14));
  }
  // Nothing changes any more: what is under way ends.
  void settle() {
    for (int i = 0; i < 40; ++i) {
      happen(kAnswer);
      happen(kExit);
      feed(kFacts);
    }
  }
  LifeState state() const { return life_.state; }
  LifeFacts& facts() { return facts_; }

 private:
  static constexpr int kAnswer = 0, kExit = 1;

  void happen(int what) {
    switch (what) {
      case kAnswer:
        if (modes_) return feed(std::exchange(modes_, false) && random_() % 4 != 0 ? kModesSet : kStartFailed);
        if (ending_) {
          ending_ = false;
          facts_.users.clear();
          return feed(kClientsEnded);
        }
        return std::exchange(retry_, false) ? feed(kRetry) : feed(kFacts);
      case kExit:
        if (stopping_) facts_.has_daemon = stopping_ = false;
        return feed(kFacts);
      case 2:
      case 3:
        facts_.planned = random_() % 2 == 0;
        return feed(facts_.planned ? kPlanChanged : kFacts);
      case 4:
        facts_.forced = random_() % 2 == 0;
        break;
      case 5:
      case 6:
        facts_.held = random_() % 2 == 0;
        facts_.waits = facts_.held ? "held" : "";
        break;
      case 7:
      case 8:
        if (facts_.has_daemon && !stopping_) facts_.users = random_() % 2 == 0 ? "client has left" : "";
        break;
      case 9:
        facts_.replace = facts_.has_daemon && facts_.users.empty() && random_() % 4 == 0;
        break;
      case 10:
        if (random_() % 16 == 0) facts_.closing = true;
        break;
      default:
        break;
    }
    if (!facts_.users.empty()) facts_.replace = false;
    feed(kFacts);
  }

  void feed(LifeEvent event) {
    for (const auto action : step(life_, event, facts_, "failed")) act(event, action);
  }

  void act(LifeEvent event, LifeAction action) {
    const bool wanted = facts_.planned && !facts_.closing;
    switch (action) {
      case LifeAction::kSetModes:
        EXPECT_FALSE(modes_) << "set twice at a time";
        EXPECT_TRUE(wanted);
        modes_ = true;
        break;
      case LifeAction::kStart:
        EXPECT_EQ(event, kModesSet);
        EXPECT_TRUE(wanted && !stopping_);
        EXPECT_TRUE(facts_.has_daemon || facts_.waits.empty()) << "a new daemon beside another holder";
        facts_.has_daemon = true;
        break;
      case LifeAction::kStop:
        EXPECT_TRUE(facts_.has_daemon);
        EXPECT_TRUE(facts_.users.empty() || facts_.closing || event == kClientsEnded) << "users lose their daemon";
        facts_.users.clear();
        facts_.replace = false;
        stopping_ = true;
        break;
      case LifeAction::kEndClients:
        EXPECT_TRUE(facts_.forced && !wanted && !ending_);
        ending_ = true;
        break;
      case LifeAction::kReopen:
        EXPECT_TRUE(wanted && facts_.has_daemon);
        break;
      case LifeAction::kDiscard:
        EXPECT_FALSE(facts_.has_daemon);
        break;
      case LifeAction::kRetryLater:
        retry_ = true;
        break;
    }
    if (life_.state != kEnded) return;
    EXPECT_FALSE(facts_.has_daemon || modes_ || (facts_.planned && !facts_.closing));
  }

  std::mt19937 random_;
  PoolLife life_;
  LifeFacts facts_;
  bool modes_ = false;
  bool ending_ = false;
  bool stopping_ = false;
  bool retry_ = false;
};

TEST(PoolLifeProperty, KeepsItsRulesInAnyOrderOfEvents) {
  for (std::uint32_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(seed);
    World world(seed);
    world.run(200);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(PoolLifeProperty, ComesToRestWhereTheFactsLead) {
  for (std::uint32_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(seed);
    World world(seed);
    world.run(100);
    if (world.state() == kEnded) continue;
    const bool closing = seed % 2 == 0;
    auto& facts = world.facts();
    facts.closing = closing || facts.closing;
    facts.planned = !closing;
    facts.held = facts.replace = facts.forced = false;
    facts.waits.clear();
    world.settle();
    EXPECT_EQ(world.state(), facts.closing ? kEnded : kServing);
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace pool_life_test
}  // namespace tranche::mps
