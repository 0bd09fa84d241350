#include "mps/pool/pool_set.h"

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
  Actions feed(LifeEvent event, const std::string& why = {}) { return step(life_, event, inputs_, why); }
  void serve() {
    feed(kPlanChanged);
    feed(kModesSet);
    inputs_.has_daemon = true;
    ASSERT_EQ(life_.state, kServing);
  }

  PoolLife life_;
  LifeInputs inputs_;
};

TEST_F(PoolLifeTest, ADaemonStartsOnceTheModesAreSet) {
  EXPECT_THAT(feed(kPlanChanged), ElementsAre(LifeAction::kSetModes));
  EXPECT_THAT(feed(kInputs), IsEmpty());
  EXPECT_THAT(feed(kModesSet), ElementsAre(LifeAction::kStart));
  EXPECT_EQ(life_.state, kServing);
}

TEST_F(PoolLifeTest, APoolWaitsAndSaysForWhat) {
  inputs_.waits = "containers hold GPU-1";
  EXPECT_THAT(feed(kPlanChanged), IsEmpty());
  EXPECT_EQ(life_.reason, inputs_.waits);
  inputs_.waits.clear();
  EXPECT_THAT(feed(kInputs), ElementsAre(LifeAction::kSetModes));
  inputs_.waits = "containers hold GPU-1";  // since the modes are being set
  EXPECT_THAT(feed(kModesSet), IsEmpty());
  EXPECT_EQ(life_.state, kIdle);
  EXPECT_FALSE(life_.setting_modes || life_.failed);
}

TEST_F(PoolLifeTest, AFailedStartIsRetried) {
  feed(kPlanChanged);
  EXPECT_THAT(feed(kStartFailed, "no permission"), ElementsAre(LifeAction::kRetryLater, LifeAction::kDiscard));
  EXPECT_EQ(life_.state, kIdle);
  EXPECT_TRUE(life_.failed);
  EXPECT_EQ(life_.reason, "no permission");
  EXPECT_THAT(feed(kInputs), IsEmpty());
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
  inputs_.planned = false;
  inputs_.users = "client has left";
  EXPECT_THAT(feed(kInputs), IsEmpty());
  EXPECT_EQ(life_.state, kServing);
  EXPECT_THAT(life_.reason, HasSubstr("when its last client has left"));
  inputs_.users.clear();
  EXPECT_THAT(feed(kInputs), ElementsAre(LifeAction::kStop));
  EXPECT_THAT(feed(kInputs), IsEmpty());
  inputs_.has_daemon = false;
  EXPECT_THAT(feed(kInputs), ElementsAre(LifeAction::kDiscard));
  EXPECT_EQ(life_.state, kEnded);
}

TEST_F(PoolLifeTest, APoolThatIsPlannedAgainServesOn) {
  serve();
  inputs_.planned = false;
  inputs_.users = "client has left";
  feed(kInputs);
  inputs_.planned = true;
  EXPECT_THAT(feed(kInputs), IsEmpty());
  EXPECT_EQ(life_.state, kServing);
  EXPECT_EQ(life_.reason, "");
}

TEST_F(PoolLifeTest, APoolThatIsPlannedAgainWhileItEndsStartsAgainWhenItIsGone) {
  serve();
  inputs_.planned = false;
  EXPECT_THAT(feed(kInputs), ElementsAre(LifeAction::kStop));
  inputs_.planned = true;
  EXPECT_THAT(feed(kPlanChanged), IsEmpty());
  inputs_.has_daemon = false;
  EXPECT_THAT(feed(kInputs), ElementsAre(LifeAction::kDiscard, LifeAction::kSetModes));
}

TEST_F(PoolLifeTest, ItYieldsToContainersThatHeldItsGpusOnlyWhileItIsNotUsed) {
  serve();
  inputs_.held = true;
  inputs_.waits = "containers hold GPU-1";
  inputs_.users = "client has left";
  EXPECT_THAT(feed(kInputs), IsEmpty());
  inputs_.users.clear();
  EXPECT_THAT(feed(kInputs), ElementsAre(LifeAction::kStop));
  inputs_.has_daemon = false;
  EXPECT_THAT(feed(kInputs), ElementsAre(LifeAction::kDiscard));
  EXPECT_EQ(life_.state, kIdle);
  EXPECT_FALSE(life_.setting_modes || life_.failed);
  EXPECT_EQ(life_.reason, inputs_.waits);
}

TEST_F(PoolLifeTest, AProgramThatEndsStopsItsDaemonAtOnce) {
  serve();
  inputs_.closing = true;
  inputs_.users = "client has left";
  EXPECT_THAT(feed(kInputs), ElementsAre(LifeAction::kStop));
}

TEST_F(PoolLifeTest, AForcedEndEndsItsClientsFirst) {
  serve();
  inputs_ = {.closing = true, .forced = true, .users = "client has left", .has_daemon = true};
  EXPECT_THAT(feed(kInputs), ElementsAre(LifeAction::kEndClients));
  EXPECT_THAT(feed(kInputs), IsEmpty());
  EXPECT_THAT(feed(kClientsEnded), ElementsAre(LifeAction::kStop));
}

TEST_F(PoolLifeTest, AProgramThatEndsWaitsForTheModesThatItSets) {
  feed(kPlanChanged);
  inputs_.closing = true;
  feed(kInputs);
  EXPECT_EQ(life_.state, kIdle);
  EXPECT_TRUE(life_.setting_modes);
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
      feed(kInputs);
    }
  }
  LifeState state() const { return life_.state; }
  LifeInputs& inputs() { return inputs_; }

 private:
  static constexpr int kAnswer = 0, kExit = 1;

  void happen(int what) {
    switch (what) {
      case kAnswer:
        if (modes_) return feed(std::exchange(modes_, false) && random_() % 4 != 0 ? kModesSet : kStartFailed);
        if (ending_) {
          ending_ = false;
          inputs_.users.clear();
          return feed(kClientsEnded);
        }
        return std::exchange(retry_, false) ? feed(kRetry) : feed(kInputs);
      case kExit:
        if (stopping_) inputs_.has_daemon = stopping_ = false;
        return feed(kInputs);
      case 2:
      case 3:
        inputs_.planned = random_() % 2 == 0;
        return feed(inputs_.planned ? kPlanChanged : kInputs);
      case 5:
      case 6:
        inputs_.held = random_() % 2 == 0;
        inputs_.waits = inputs_.held ? "held" : "";
        break;
      case 7:
      case 8:
        if (inputs_.has_daemon && !stopping_) inputs_.users = random_() % 2 == 0 ? "client has left" : "";
        break;
      case 9:
        if (inputs_.closing || random_() % 16 != 0) break;
        inputs_.closing = true;
        inputs_.forced = random_() % 2 == 0;
        break;
      default:
        break;
    }
    feed(kInputs);
  }

  void feed(LifeEvent event) {
    for (const auto action : step(life_, event, inputs_, "failed")) act(event, action);
  }

  void act(LifeEvent event, LifeAction action) {
    const bool wanted = inputs_.planned && !inputs_.closing;
    switch (action) {
      case LifeAction::kSetModes:
        EXPECT_FALSE(modes_) << "set twice at a time";
        EXPECT_TRUE(wanted);
        modes_ = true;
        break;
      case LifeAction::kStart:
        EXPECT_EQ(event, kModesSet);
        EXPECT_TRUE(wanted && !stopping_);
        EXPECT_TRUE(inputs_.has_daemon || inputs_.waits.empty()) << "a new daemon beside another holder";
        inputs_.has_daemon = true;
        break;
      case LifeAction::kStop:
        EXPECT_TRUE(inputs_.has_daemon);
        EXPECT_TRUE(inputs_.users.empty() || inputs_.closing) << "users lose their daemon";
        inputs_.users.clear();
        stopping_ = true;
        break;
      case LifeAction::kEndClients:
        EXPECT_TRUE(inputs_.forced && inputs_.closing && !ending_);
        ending_ = true;
        break;
      case LifeAction::kDiscard:
        EXPECT_FALSE(inputs_.has_daemon);
        break;
      case LifeAction::kRetryLater:
        retry_ = true;
        break;
    }
    if (life_.state != kEnded) return;
    EXPECT_FALSE(inputs_.has_daemon || modes_ || (inputs_.planned && !inputs_.closing));
  }

  std::mt19937 random_;
  PoolLife life_;
  LifeInputs inputs_;
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

TEST(PoolLifeProperty, ComesToRestWhereTheInputsLead) {
  for (std::uint32_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(seed);
    World world(seed);
    world.run(100);
    if (world.state() == kEnded) continue;
    const bool closing = seed % 2 == 0;
    auto& inputs = world.inputs();
    inputs.closing = closing || inputs.closing;
    inputs.planned = !closing;
    inputs.held = inputs.forced = false;
    inputs.waits.clear();
    world.settle();
    EXPECT_EQ(world.state(), inputs.closing ? kEnded : kServing);
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace pool_life_test
}  // namespace tranche::mps
