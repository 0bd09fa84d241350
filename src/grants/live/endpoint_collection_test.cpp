#include "grants/live/endpoint_collection.h"

#include <gmock/gmock.h>

namespace tranche::agent {
namespace door_collection_test {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

const DoorCollection::Door kDoor{"gpu-1", "0011223344556677", false};
const DoorCollection::Door kBusy{"gpu-1", "0011223344556677", true};
const std::set<std::string> kHeld{"0011223344556677"};
const std::set<std::string> kOthers{"8899aabbccddeeff"};
const MonoTime kStart{1000s};

TEST(DoorCollectionTest, ADoorGoesAfterTwoLooksWithoutItsGrantAMinuteApart) {
  DoorCollection doors;
  EXPECT_THAT(doors.look({kDoor}, kHeld, kStart), IsEmpty());
  EXPECT_THAT(doors.look({kDoor}, kOthers, kStart + 30s), IsEmpty());
  EXPECT_THAT(doors.look({kDoor}, kOthers, kStart + 89s), IsEmpty());
  EXPECT_THAT(doors.look({kDoor}, kOthers, kStart + 90s), ElementsAre(kDoor));
  EXPECT_THAT(doors.look({kDoor}, kOthers, kStart + 91s), ElementsAre(kDoor)) << "still there: asked for again";
}

TEST(DoorCollectionTest, ALookWithItsGrantBeginsTheCountAnew) {
  DoorCollection doors;
  (void)doors.look({kDoor}, kHeld, kStart);
  (void)doors.look({kDoor}, kOthers, kStart + 30s);
  (void)doors.look({kDoor}, kHeld, kStart + 60s);
  EXPECT_THAT(doors.look({kDoor}, kOthers, kStart + 120s), IsEmpty());
}

TEST(DoorCollectionTest, ALivingClientKeepsNoDoorOfAPodThatIsGone) {
  DoorCollection doors;
  (void)doors.look({kBusy}, kHeld, kStart);
  EXPECT_THAT(doors.look({kBusy}, kOthers, kStart + 1s), IsEmpty());
  EXPECT_THAT(doors.look({kBusy}, kOthers, kStart + 61s), ElementsAre(kBusy));
}

// kubelet that was started anew while the API server is away lists nothing, and containers run on.
TEST(DoorCollectionTest, ALivingClientKeepsItsDoorWhileKubeletListsNothingOrNeverListedIt) {
  DoorCollection doors;
  DoorCollection unlisted;
  (void)doors.look({kBusy}, kHeld, kStart);
  for (int minute = 1; minute < 30; ++minute) {
    EXPECT_THAT(doors.look({kBusy}, {}, kStart + std::chrono::minutes(minute)), IsEmpty());
    EXPECT_THAT(unlisted.look({kBusy}, kOthers, kStart + std::chrono::minutes(minute)), IsEmpty());
  }
  EXPECT_THAT(doors.look({kDoor}, {}, kStart + 30min), IsEmpty()) << "only now without a client";
  EXPECT_THAT(doors.look({kDoor}, {}, kStart + 40min), ElementsAre(kDoor));
}

TEST(DoorCollectionTest, ADoorGoesAtOnceWhenTheApiServerReportsItsPodsEndAndKubeletDoesNotListIt) {
  DoorCollection doors;
  (void)doors.look({kBusy}, kHeld, kStart);
  doors.pod_ended("gpu-1", kBusy.grant, kStart + 1s);
  EXPECT_THAT(doors.look({kBusy}, kHeld, kStart + 2s), IsEmpty()) << "kubelet has not finished with it";
  EXPECT_THAT(doors.look({kBusy}, {}, kStart + 3s), ElementsAre(kBusy));
  doors.handed_out("gpu-1", kBusy.grant);
  EXPECT_THAT(doors.look({kBusy}, {}, kStart + 4s), IsEmpty()) << "the next tenant's";
}

TEST(DoorCollectionTest, AGrantThatKubeletHasNotListedYetIsLeftAlone) {
  DoorCollection doors;
  doors.handed_out("gpu-1", kDoor.grant);
  (void)doors.look({kDoor}, kOthers, kStart);
  EXPECT_THAT(doors.look({kDoor}, kOthers, kStart + 5min), IsEmpty());
  EXPECT_THAT(doors.look({kDoor}, kOthers, kStart + DoorCollection::kNeverListed), ElementsAre(kDoor));
}

TEST(DoorCollectionTest, AGrantThatIsHandedOutAgainIsAsYoungAsANewOne) {
  DoorCollection doors;
  (void)doors.look({kDoor}, kHeld, kStart);
  (void)doors.look({kDoor}, kOthers, kStart + 1min);
  doors.handed_out("gpu-1", kDoor.grant);
  EXPECT_THAT(doors.look({kDoor}, kOthers, kStart + 2min), IsEmpty());
  EXPECT_THAT(doors.look({kDoor}, kOthers, kStart + 4min), IsEmpty());
}

TEST(DoorCollectionTest, AKubeletThatListsNothingIsNotBelievedSoon) {
  DoorCollection doors;
  (void)doors.look({kDoor}, kHeld, kStart);
  (void)doors.look({kDoor}, {}, kStart + 1min);
  EXPECT_THAT(doors.look({kDoor}, {}, kStart + 5min), IsEmpty());
  EXPECT_THAT(doors.look({kDoor}, {}, kStart + 11min), ElementsAre(kDoor));
}

}  // namespace door_collection_test
}  // namespace tranche::agent
