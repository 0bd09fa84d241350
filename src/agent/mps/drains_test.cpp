#include "agent/mps/drains.h"

#include <gmock/gmock.h>

namespace tranche::agent {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

const DoorName kDoor{"gpu-1", "0011223344556677"};
const DoorName kOther{"gpu-1", "8899aabbccddeeff"};
const std::string kOld = "mnt:[1]", kNew = "mnt:[2]";

TEST(Drains, AContainerThatIsDrainedIsClosedAndItsSuccessorIsNot) {
  Drains drains;
  EXPECT_TRUE(drains.begin(kDoor, {kOld}, 1, MonoTime{1s}));
  EXPECT_TRUE(drains.is_closed(kDoor, kOld));
  EXPECT_FALSE(drains.is_closed(kDoor, kNew));
  EXPECT_FALSE(drains.is_closed(kOther, kOld));
  (void)drains.end(kDoor);
  EXPECT_TRUE(drains.is_closed(kDoor, kOld)) << "until its init has ended";
  drains.container_ended(kDoor, kOld);
  EXPECT_FALSE(drains.is_closed(kDoor, kOld));
  EXPECT_THAT(drains.closed(kDoor), IsEmpty());
}

TEST(Drains, ASecondDrainJoinsTheOneThatRuns) {
  Drains drains;
  EXPECT_TRUE(drains.begin(kDoor, {kOld}, 1, MonoTime{1s}));
  EXPECT_FALSE(drains.begin(kDoor, {kOld}, 2, MonoTime{2s}));
  EXPECT_TRUE(drains.begin(kOther, {kOld}, 3, MonoTime{2s}));
  const auto ended = drains.end(kDoor);
  EXPECT_THAT(ended.waiters, ElementsAre(1u, 2u));
  EXPECT_EQ(ended.since, MonoTime{1s});
  EXPECT_FALSE(drains.running(kDoor));
  EXPECT_TRUE(drains.running(kOther));
  EXPECT_TRUE(drains.begin(kDoor, {kOld}, 4, MonoTime{3s})) << "after its end another may begin";
}

TEST(Drains, ADrainOfNobodyInParticularClosesNothing) {
  Drains drains;
  EXPECT_TRUE(drains.begin(kDoor, {}, 1, MonoTime{}));
  EXPECT_TRUE(drains.begin(kOther, {""}, 1, MonoTime{}));
  EXPECT_THAT(drains.closed(kDoor), IsEmpty());
  EXPECT_FALSE(drains.is_closed(kOther, ""));
}

TEST(Drains, WhatEndsTwiceOrNeverRanHasNoWaiters) {
  Drains drains;
  EXPECT_THAT(drains.end(kDoor).waiters, IsEmpty());
  drains.container_ended(kDoor, kOld);
  drains.forget(kDoor);
  EXPECT_FALSE(drains.is_closed(kDoor, kOld));
}

}  // namespace
}  // namespace tranche::agent
