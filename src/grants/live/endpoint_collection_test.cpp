#include "grants/live/endpoint_collection.h"

#include <gmock/gmock.h>

namespace tranche::agent {
namespace endpoint_collection_test {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

const EndpointCollection::Endpoint kEndpoint{"gpu-1", "0011223344556677", false};
const EndpointCollection::Endpoint kBusy{"gpu-1", "0011223344556677", true};
const std::set<std::string> kHeld{"0011223344556677"};
const std::set<std::string> kOthers{"8899aabbccddeeff"};
const MonoTime kStart{1000s};

TEST(EndpointCollectionTest, AnEndpointGoesAfterTwoLooksWithoutItsGrantAMinuteApart) {
  EndpointCollection endpoints;
  EXPECT_THAT(endpoints.look({kEndpoint}, kHeld, kStart), IsEmpty());
  EXPECT_THAT(endpoints.look({kEndpoint}, kOthers, kStart + 30s), IsEmpty());
  EXPECT_THAT(endpoints.look({kEndpoint}, kOthers, kStart + 89s), IsEmpty());
  EXPECT_THAT(endpoints.look({kEndpoint}, kOthers, kStart + 90s), ElementsAre(kEndpoint));
  EXPECT_THAT(endpoints.look({kEndpoint}, kOthers, kStart + 91s), ElementsAre(kEndpoint))
      << "still there: asked for again";
}

TEST(EndpointCollectionTest, ALookWithItsGrantBeginsTheCountAnew) {
  EndpointCollection endpoints;
  (void)endpoints.look({kEndpoint}, kHeld, kStart);
  (void)endpoints.look({kEndpoint}, kOthers, kStart + 30s);
  (void)endpoints.look({kEndpoint}, kHeld, kStart + 60s);
  EXPECT_THAT(endpoints.look({kEndpoint}, kOthers, kStart + 120s), IsEmpty());
}

TEST(EndpointCollectionTest, ALivingClientKeepsNoEndpointOfAPodThatIsGone) {
  EndpointCollection endpoints;
  (void)endpoints.look({kBusy}, kHeld, kStart);
  EXPECT_THAT(endpoints.look({kBusy}, kOthers, kStart + 1s), IsEmpty());
  EXPECT_THAT(endpoints.look({kBusy}, kOthers, kStart + 61s), ElementsAre(kBusy));
}

// kubelet that was started anew while the API server is away lists nothing, and containers run on.
TEST(EndpointCollectionTest, ALivingClientKeepsItsEndpointWhileKubeletListsNothingOrNeverListedIt) {
  EndpointCollection endpoints;
  EndpointCollection unlisted;
  (void)endpoints.look({kBusy}, kHeld, kStart);
  for (int minute = 1; minute < 30; ++minute) {
    EXPECT_THAT(endpoints.look({kBusy}, {}, kStart + std::chrono::minutes(minute)), IsEmpty());
    EXPECT_THAT(unlisted.look({kBusy}, kOthers, kStart + std::chrono::minutes(minute)), IsEmpty());
  }
  EXPECT_THAT(endpoints.look({kEndpoint}, {}, kStart + 30min), IsEmpty()) << "only now without a client";
  EXPECT_THAT(endpoints.look({kEndpoint}, {}, kStart + 40min), ElementsAre(kEndpoint));
}

TEST(EndpointCollectionTest, AnEndpointGoesAtOnceWhenTheApiServerReportsItsPodsEndAndKubeletDoesNotListIt) {
  EndpointCollection endpoints;
  (void)endpoints.look({kBusy}, kHeld, kStart);
  endpoints.pod_ended("gpu-1", kBusy.grant, kStart + 1s);
  EXPECT_THAT(endpoints.look({kBusy}, kHeld, kStart + 2s), IsEmpty()) << "kubelet has not finished with it";
  EXPECT_THAT(endpoints.look({kBusy}, {}, kStart + 3s), ElementsAre(kBusy));
  endpoints.handed_out("gpu-1", kBusy.grant);
  EXPECT_THAT(endpoints.look({kBusy}, {}, kStart + 4s), IsEmpty()) << "the next tenant's";
}

TEST(EndpointCollectionTest, AGrantThatKubeletHasNotListedYetIsLeftAlone) {
  EndpointCollection endpoints;
  endpoints.handed_out("gpu-1", kEndpoint.grant);
  (void)endpoints.look({kEndpoint}, kOthers, kStart);
  EXPECT_THAT(endpoints.look({kEndpoint}, kOthers, kStart + 5min), IsEmpty());
  EXPECT_THAT(endpoints.look({kEndpoint}, kOthers, kStart + EndpointCollection::kNeverListed), ElementsAre(kEndpoint));
}

TEST(EndpointCollectionTest, AGrantThatIsHandedOutAgainIsAsYoungAsANewOne) {
  EndpointCollection endpoints;
  (void)endpoints.look({kEndpoint}, kHeld, kStart);
  (void)endpoints.look({kEndpoint}, kOthers, kStart + 1min);
  endpoints.handed_out("gpu-1", kEndpoint.grant);
  EXPECT_THAT(endpoints.look({kEndpoint}, kOthers, kStart + 2min), IsEmpty());
  EXPECT_THAT(endpoints.look({kEndpoint}, kOthers, kStart + 4min), IsEmpty());
}

TEST(EndpointCollectionTest, AKubeletThatListsNothingIsNotBelievedSoon) {
  EndpointCollection endpoints;
  (void)endpoints.look({kEndpoint}, kHeld, kStart);
  (void)endpoints.look({kEndpoint}, {}, kStart + 1min);
  EXPECT_THAT(endpoints.look({kEndpoint}, {}, kStart + 5min), IsEmpty());
  EXPECT_THAT(endpoints.look({kEndpoint}, {}, kStart + 11min), ElementsAre(kEndpoint));
}

}  // namespace endpoint_collection_test
}  // namespace tranche::agent
