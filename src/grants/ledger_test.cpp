#include "grants/ledger.h"

#include <gmock/gmock.h>

namespace tranche::grants {
namespace ledger_test {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

Held held(const std::vector<std::string>& slots, const std::string& pod = "") {
  return {.pod = pod, .resource = "nvidia.com/gpu", .slots = slots};
}
const Held kA = held({"GPU-0::0"});
const Held kB = held({"GPU-0::1"});

MonoTime at(Duration since) {
  return MonoTime{} + 1h + since;
}

// Of the pool gpu-1, without devices.
Grant grant_of(const Held& held) {
  Grant grant;
  grant.id = grant_id(held.slots);
  grant.resource = held.resource;
  grant.slots = held.slots;
  grant.pool = "gpu-1";
  return grant;
}

TEST(LedgerSlots, AreNotKnownUntilKubeletAnsweredAndWhenItStopsTo) {
  Ledger slots;
  EXPECT_NE(slots.unknown(), "");
  slots.listed({kA}, at(0s));
  EXPECT_EQ(slots.unknown(), "");
  slots.not_answered("kubelet does not answer");
  EXPECT_EQ(slots.unknown(), "kubelet does not answer");
  EXPECT_THAT(slots.held(), ElementsAre(kA)) << "what was known stays";
}

// Promise: change: A slot is free after two answers of kubelet without it.
TEST(LedgerSlots, AreFreeWhenTwoAnswersInARowDoNotNameThem) {
  Ledger slots;
  slots.listed({kA, kB}, at(0s));
  slots.listed({kB}, at(1s));
  EXPECT_EQ(slots.held().size(), 2u);
  EXPECT_TRUE(slots.in_doubt());
  slots.listed({kB}, at(2s));
  EXPECT_EQ(slots.held().size(), 2u) << "too soon";
  slots.listed({kB}, at(3s));
  EXPECT_THAT(slots.held(), ElementsAre(kB));
  EXPECT_FALSE(slots.in_doubt());
}

TEST(LedgerSlots, ThatAreNamedAgainAreHeldAsBefore) {
  Ledger slots;
  slots.listed({kA, kB}, at(0s));
  slots.listed({kB}, at(1s));
  slots.listed({kA, kB}, at(2s));
  EXPECT_FALSE(slots.in_doubt());
  slots.listed({kB}, at(4s));
  EXPECT_EQ(slots.held().size(), 2u) << "the count starts again";
}

TEST(LedgerSlots, AreBelievedFreeLaterWhereKubeletNamesNobodyAsAfterItsStart) {
  Ledger slots;
  slots.listed({kA}, at(0s));
  slots.listed({}, at(1s));
  slots.listed({}, at(9s));
  EXPECT_THAT(slots.held(), ElementsAre(kA));
  slots.listed({}, at(11s));
  EXPECT_THAT(slots.held(), IsEmpty());
}

TEST(LedgerSlots, GivenAMomentAgoAreHeldThoughKubeletDoesNotNameThemYet) {
  Ledger slots;
  slots.listed({}, at(0s));
  slots.given(grant_of(kA), at(1s));
  slots.listed({kB}, at(2s));
  slots.listed({kB}, at(5s));
  EXPECT_EQ(slots.held().size(), 2u);
  slots.listed({kB}, at(7s));
  slots.listed({kB}, at(9s));
  EXPECT_THAT(slots.held(), ElementsAre(kB)) << "it has come to nothing";
}

TEST(LedgerSlots, GivenToAnotherAreThatOnes) {
  const Held both = held({"GPU-0::0", "GPU-0::1"});
  Ledger slots;
  slots.listed({both}, at(0s));
  slots.given(grant_of(kA), at(1s));
  EXPECT_THAT(slots.held(), ElementsAre(kA));
  slots.listed({both}, at(0s));
  EXPECT_THAT(slots.held(), ElementsAre(kA)) << "an answer from before";
}

class LatePods : public ::testing::Test {
 protected:
  void SetUp() override {
    EXPECT_THAT(after({held({"s0"}, "a"), held({"s1"}, "b")}, false), ElementsAre("a s0", "b s1"));
  }
  // What is held after kubelet answered `list`.
  std::vector<std::string> after(const std::vector<Held>& list, bool behind) {
    const auto running = [this](const Held& held) { return uids_.contains(held.pod) ? uids_.at(held.pod) : ""; };
    ledger_.listed(list, now_ += 1min, running);
    EXPECT_EQ(ledger_.behind(), behind);
    std::vector<std::string> names;
    for (const auto& one : ledger_.as_listed()) names.push_back(one.pod + " " + one.slots.front());
    return names;
  }

  std::map<std::string, std::string> uids_{{"a", "1"}, {"b", "2"}, {"c", "3"}};  // of running pods
  MonoTime now_{};
  Ledger ledger_;
};

// Promise: kubelet/pod-resources: A running pod that kubelet does not list yet after its start holds what it held.
TEST_F(LatePods, HoldWhatTheyHeldUntilKubeletListsThem) {
  EXPECT_THAT(after({}, true), ElementsAre("a s0", "b s1"));
  EXPECT_THAT(after({held({"s1"}, "b")}, true), UnorderedElementsAre("a s0", "b s1"));
  EXPECT_THAT(after({held({"s0"}, "a"), held({"s1"}, "b")}, false), ElementsAre("a s0", "b s1"));
}

TEST_F(LatePods, HoldNothingOnceTheyAreOverOrGone) {
  uids_.clear();
  EXPECT_THAT(after({held({"s0"}, "a")}, true), ElementsAre("a s0")) << "kubelet lists it still";
  EXPECT_THAT(after({}, false), IsEmpty());
}

TEST_F(LatePods, AnotherPodOfTheSameNameHasNothingOfTheFormer) {
  uids_["a"] = "9";
  EXPECT_THAT(after({}, true), ElementsAre("b s1"));
  EXPECT_THAT(after({}, true), ElementsAre("b s1"));
}

TEST_F(LatePods, SlotsThatKubeletGaveToAnotherAreTheirsNoLonger) {
  EXPECT_THAT(after({held({"s0"}, "c")}, true), ElementsAre("c s0", "b s1"));
  ledger_.given(grant_of(held({"s1"})), now_);
  EXPECT_THAT(after({held({"s0"}, "c")}, false), ElementsAre("c s0"));
}

TEST_F(LatePods, APodThatKubeletListsWithOtherSlotsHoldsThose) {
  EXPECT_THAT(after({held({"s7"}, "a"), held({"s1"}, "b")}, false), ElementsAre("a s7", "b s1"));
}

const Endpoint kEndpoint{"gpu-1", grant_id(kA.slots), false, 0, {}};
const Endpoint kBusy{"gpu-1", grant_id(kA.slots), true, 0, {}};
const std::vector<Held> kAlone{kA};
const std::vector<Held> kOther{kB};
const MonoTime kStart{1000s};

// An answer of kubelet, and the endpoint that may go by then.
std::vector<Endpoint> look(Ledger& ledger, const Endpoint& endpoint, const std::vector<Held>& listed, MonoTime now) {
  ledger.listed(listed, now);
  return ledger.over({endpoint}, now);
}

TEST(LedgerEndpoints, AnEndpointGoesAfterTwoLooksWithoutItsGrantAMinuteApart) {
  Ledger ledger;
  EXPECT_THAT(look(ledger, kEndpoint, kAlone, kStart), IsEmpty());
  EXPECT_THAT(look(ledger, kEndpoint, kOther, kStart + 30s), IsEmpty());
  EXPECT_THAT(look(ledger, kEndpoint, kOther, kStart + 89s), IsEmpty());
  EXPECT_THAT(look(ledger, kEndpoint, kOther, kStart + 90s), ElementsAre(kEndpoint));
  EXPECT_THAT(look(ledger, kEndpoint, kOther, kStart + 91s), ElementsAre(kEndpoint)) << "still there: asked for again";
}

TEST(LedgerEndpoints, ALookWithItsGrantBeginsTheCountAnew) {
  Ledger ledger;
  (void)look(ledger, kEndpoint, kAlone, kStart);
  (void)look(ledger, kEndpoint, kOther, kStart + 30s);
  (void)look(ledger, kEndpoint, kAlone, kStart + 60s);
  EXPECT_THAT(look(ledger, kEndpoint, kOther, kStart + 120s), IsEmpty());
}

TEST(LedgerEndpoints, ALivingClientKeepsNoEndpointOfAPodThatIsGone) {
  Ledger ledger;
  (void)look(ledger, kBusy, kAlone, kStart);
  EXPECT_THAT(look(ledger, kBusy, kOther, kStart + 1s), IsEmpty());
  EXPECT_THAT(look(ledger, kBusy, kOther, kStart + 61s), ElementsAre(kBusy));
}

// A kubelet that restarts while the API server is down lists nothing, and containers go on.
TEST(LedgerEndpoints, ALivingClientKeepsItsEndpointWhileKubeletListsNothingOrNeverListedIt) {
  Ledger ledger;
  Ledger unlisted;
  (void)look(ledger, kBusy, kAlone, kStart);
  for (int minute = 1; minute < 30; ++minute) {
    EXPECT_THAT(look(ledger, kBusy, {}, kStart + std::chrono::minutes(minute)), IsEmpty());
    EXPECT_THAT(look(unlisted, kBusy, kOther, kStart + std::chrono::minutes(minute)), IsEmpty());
  }
  EXPECT_THAT(look(ledger, kEndpoint, {}, kStart + 30min), IsEmpty()) << "only now without a client";
  EXPECT_THAT(look(ledger, kEndpoint, {}, kStart + 40min), ElementsAre(kEndpoint));
}

TEST(LedgerEndpoints, AnEndpointGoesAtOnceWhenTheApiServerReportsItsPodsEndAndKubeletDoesNotListIt) {
  Ledger ledger;
  (void)look(ledger, kBusy, kAlone, kStart);
  ledger.pod_ended("gpu-1", kBusy.grant, kStart + 1s);
  EXPECT_THAT(look(ledger, kBusy, kAlone, kStart + 2s), IsEmpty()) << "kubelet has not finished with it";
  EXPECT_THAT(look(ledger, kBusy, {}, kStart + 3s), ElementsAre(kBusy));
  ledger.given(grant_of(kA), kStart + 3s);
  EXPECT_THAT(look(ledger, kBusy, {}, kStart + 4s), IsEmpty()) << "the next tenant's";
}

TEST(LedgerEndpoints, AGrantThatKubeletHasNotListedYetIsLeftAlone) {
  Ledger ledger;
  ledger.given(grant_of(kA), kStart + 1min);
  (void)look(ledger, kEndpoint, kOther, kStart);
  EXPECT_THAT(look(ledger, kEndpoint, kOther, kStart + 5min), IsEmpty());
  EXPECT_THAT(look(ledger, kEndpoint, kOther, kStart + kPatience.endpoint_unlisted), ElementsAre(kEndpoint));
}

TEST(LedgerEndpoints, AGrantThatIsHandedOutAgainIsAsYoungAsANewOne) {
  Ledger ledger;
  (void)look(ledger, kEndpoint, kAlone, kStart);
  (void)look(ledger, kEndpoint, kOther, kStart + 1min);
  ledger.given(grant_of(kA), kStart + 1min);
  EXPECT_THAT(look(ledger, kEndpoint, kOther, kStart + 2min), IsEmpty());
  EXPECT_THAT(look(ledger, kEndpoint, kOther, kStart + 4min), IsEmpty());
}

TEST(LedgerEndpoints, AKubeletThatListsNothingIsNotBelievedSoon) {
  Ledger ledger;
  (void)look(ledger, kEndpoint, kAlone, kStart);
  (void)look(ledger, kEndpoint, {}, kStart + 1min);
  EXPECT_THAT(look(ledger, kEndpoint, {}, kStart + 5min), IsEmpty());
  EXPECT_THAT(look(ledger, kEndpoint, {}, kStart + 11min), ElementsAre(kEndpoint));
}

TEST(LedgerEndpoints, OfAPoolThatEndsGoOnceTheirSlotsAreFree) {
  Ledger ledger;
  EXPECT_THAT(ledger.retire({kEndpoint}, true).now, IsEmpty()) << "kubelet has not been asked";
  ledger.listed(kAlone, kStart);
  auto retiring = ledger.retire({kEndpoint}, true);
  EXPECT_THAT(retiring.now, IsEmpty());
  EXPECT_FALSE(retiring.later) << "its container runs";
  ledger.listed({}, kStart + 20s);
  EXPECT_THAT(ledger.retire({kEndpoint}, true).now, IsEmpty()) << "in doubt it is held";
  ledger.listed({}, kStart + 40s);
  EXPECT_THAT(ledger.retire({kEndpoint}, true).now, ElementsAre(kEndpoint));
  EXPECT_THAT(ledger.retire({kEndpoint}, true).now, IsEmpty()) << "asked for once";
}

TEST(LedgerEndpoints, OfAPoolThatEndsAndThatNoContainerEverHadGoWithTheSecondAnswer) {
  Ledger ledger;
  ledger.listed(kOther, kStart);
  auto retiring = ledger.retire({kEndpoint}, true);
  EXPECT_THAT(retiring.now, IsEmpty());
  EXPECT_TRUE(retiring.later);
  ledger.listed(kOther, kStart + 1s);
  EXPECT_THAT(ledger.retire({kEndpoint}, true).now, IsEmpty()) << "too soon";
  ledger.listed(kOther, kStart + 3s);
  retiring = ledger.retire({kEndpoint}, true);
  EXPECT_THAT(retiring.now, ElementsAre(kEndpoint));
  EXPECT_FALSE(retiring.later);
  EXPECT_THAT(ledger.retire({kEndpoint}, false).now, IsEmpty()) << "not while the pools are not known";
  ledger.listed(kOther, kStart + 4s);
  EXPECT_THAT(ledger.retire({kEndpoint}, true).now, IsEmpty()) << "the count starts again";
  ledger.listed(kOther, kStart + 6s);
  EXPECT_THAT(ledger.retire({kEndpoint}, true).now, ElementsAre(kEndpoint)) << "the first request may be lost";
}

const MonoTime kNow = kStart;

Grant grant(const std::string& id, const std::string& device, std::uint64_t memory_mib) {
  Grant made;
  made.id = id;
  made.resource = "nvidia.com/gpu";
  made.pool = "set-1";
  made.devices = {{device, 5, {mib(memory_mib), Percent::whole(25), 32}}};
  return made;
}

Holder named(const std::string& pod, const std::string& grant, const std::string& device, std::uint64_t memory_mib) {
  return {"team", pod, "main", "nvidia.com/gpu", {}, {{device, 5, {mib(memory_mib), Percent::whole(25), 32}}}, grant};
}

Holder claim(const std::string& uid, const std::string& grant, std::uint64_t memory_mib) {
  auto made = named("a", grant, "GPU-0", memory_mib);
  made.resource = "gpu.tranche.io";
  made.claim = "train";
  made.claim_uid = uid;
  return made;
}

Endpoint endpoint_with(const std::string& grant, std::uint64_t memory_mib, std::uint32_t hundredths) {
  return {"set-1", grant, false, 0, {{"GPU-0", 0, {mib(memory_mib), Percent{hundredths}, 0}}}};
}

const std::optional<std::vector<Endpoint>> kNotAnswered;
const std::vector<Endpoint> kNone;

plan::Plan plan_of(const std::string& device) {
  plan::Plan plan;
  plan.resources.resize(1);
  plan.resources[0].name = "nvidia.com/gpu";
  plan.resources[0].devices.resize(1);
  plan.resources[0].devices[0].uuid = device;
  plan.resources[0].devices[0].pool = "set-9";
  return plan;
}

TEST(LedgerShares, AGrantKeepsItsLimitsOverRestartsAndOtherPlans) {
  Ledger ledger;
  ledger.given(grant("g0", "GPU-0", 5000), kNow);
  Ledger again(parse_shares(render_shares(ledger.shares())));
  EXPECT_EQ(again.shares(), ledger.shares());
  again.named({named("a", "g0", "GPU-0", 700)}, plan_of("GPU-0"), kNotAnswered, true, kNow);
  const auto& share = again.shares().at({"g0", "GPU-0"});
  EXPECT_EQ(share.memory, mib(5000));
  EXPECT_EQ(share.pool, "set-1") << "where its endpoint is";
  EXPECT_EQ(share.threads, Percent::whole(25));
}

TEST(LedgerShares, LimitsThatAreLostAreTakenFromTheEndpointAndOtherwiseFromThePlan) {
  Ledger ledger;
  ledger.named({named("a", "g0", "GPU-0", 700)}, plan_of("GPU-0"), kNotAnswered, true, kNow);
  EXPECT_THAT(ledger.shares(), IsEmpty()) << "while `tranche mps` does not answer";
  ledger.named({named("a", "g0", "GPU-0", 700), named("b", "g1", "GPU-0", 700)}, plan_of("GPU-0"),
               std::vector{endpoint_with("g0", 5000, 2500)}, true, kNow);
  EXPECT_EQ(ledger.shares().at({"g0", "GPU-0"}).memory, mib(5000)) << "as it was given";
  EXPECT_EQ(ledger.shares().at({"g0", "GPU-0"}).pool, "set-1");
  EXPECT_EQ(ledger.shares().at({"g1", "GPU-0"}).memory, mib(700)) << "as it would be given now";
}

// Promise: guard: One tenant's grants stay together over a restart.
TEST(LedgerShares, GrantsOfOneContainerAreOneTenantAlsoAfterARestart) {
  Ledger ledger;
  ledger.given(grant("g0", "GPU-0", 5000), kNow);
  ledger.given(grant("g1", "GPU-1", 3000), kNow);
  EXPECT_TRUE(ledger.awaits_name(kNow + 1s));
  EXPECT_FALSE(ledger.awaits_name(kNow + 1min)) << "its pod has come to nothing";
  ledger.named({named("a", "g0", "GPU-0", 1), named("a", "g1", "GPU-1", 1)}, {}, kNotAnswered, true, kNow + 1s);
  EXPECT_FALSE(ledger.awaits_name(kNow + 1s));
  const Ledger again(parse_shares(render_shares(ledger.shares())));
  EXPECT_EQ(again.shares().at({"g0", "GPU-0"}).tenant, "g0");
  EXPECT_EQ(again.shares().at({"g1", "GPU-1"}).tenant, "g0");
}

// After the agent's own start kubelet may not have read its pods yet.
TEST(LedgerShares, AGrantThatWasWrittenDownAwaitsItsNameUntilItIsForgotten) {
  Ledger before;
  before.given(grant("g0", "GPU-0", 5000), kNow);
  before.given(grant("g1", "GPU-1", 3000), kNow);
  Ledger ledger(parse_shares(render_shares(before.shares())));
  EXPECT_TRUE(ledger.awaits_name(kNow));
  ledger.named({}, {}, kNotAnswered, true, kNow);
  EXPECT_TRUE(ledger.awaits_name(kNow + 1min)) << "kubelet lists no pod";
  ledger.named({named("a", "g0", "GPU-0", 1)}, {}, kNotAnswered, true, kNow + 1min);
  EXPECT_TRUE(ledger.awaits_name(kNow + 1min));
  ledger.given(grant("g1", "GPU-1", 3000), kNow + 1min);
  EXPECT_FALSE(ledger.awaits_name(kNow + 2min));
  ledger.named({named("a", "g0", "GPU-0", 1)}, {}, kNotAnswered, true, kNow + 20min);
  EXPECT_FALSE(Ledger(ledger.shares()).shares().contains({"g1", "GPU-1"}));
}

TEST(LedgerShares, AGrantThatIsGivenAgainHasTheLimitsOfNowAndNoTenant) {
  Ledger ledger;
  ledger.given(grant("g0", "GPU-0", 5000), kNow);
  ledger.given(grant("g1", "GPU-1", 3000), kNow);
  ledger.named({named("a", "g0", "GPU-0", 1), named("a", "g1", "GPU-1", 1)}, {}, kNotAnswered, true, kNow);
  ledger.given(grant("g0", "GPU-0", 700), kNow + 1min);
  EXPECT_EQ(ledger.shares().at({"g0", "GPU-0"}).memory, mib(700));
  EXPECT_EQ(ledger.shares().at({"g0", "GPU-0"}).tenant, "");
  EXPECT_EQ(ledger.shares().at({"g1", "GPU-1"}).tenant, "g1");
  auto without_endpoint = grant("g0", "GPU-0", 1);
  without_endpoint.pool.clear();
  ledger.given(without_endpoint, kNow + 2min);
  EXPECT_FALSE(ledger.shares().contains({"g0", "GPU-0"})) << "the slots are not a share of MPS any more";
}

TEST(LedgerShares, GrantsOfClaimsAreNeverOneTenant) {
  Ledger ledger;
  ledger.given(grant("g0", "GPU-0", 60000), kNow);
  ledger.given(grant("g1", "GPU-0", 512), kNow);
  ledger.named({named("train-0", "g0", "GPU-0", 1), named("train-0", "g1", "GPU-0", 1)}, {}, kNotAnswered, true, kNow);
  EXPECT_EQ(ledger.shares().at({"g1", "GPU-0"}).tenant, "g0");
  ledger.named({claim("u0", "g0", 60000), claim("u1", "g1", 512)}, {}, kNotAnswered, true, kNow);
  EXPECT_EQ(ledger.shares().at({"g0", "GPU-0"}).tenant, "g0");
  EXPECT_EQ(ledger.shares().at({"g1", "GPU-0"}).tenant, "g1");
}

TEST(LedgerShares, AClaimHasTheLimitsOfItsRecordWhateverItsEndpointHas) {
  Ledger ledger;
  ledger.named({claim("u1", "g1", 512)}, {}, std::vector{endpoint_with("g1", 61952, 5500)}, true, kNow);
  EXPECT_EQ(ledger.shares().at({"g1", "GPU-0"}).memory, mib(512));
  EXPECT_EQ(ledger.shares().at({"g1", "GPU-0"}).threads, Percent::whole(25));
}

// Promise: guard: The limits of a claim are forgotten once it is unprepared, and not while it has an endpoint.
TEST(LedgerShares, AClaimIsForgottenOnceItsEndpointIsClosed) {
  const std::vector open{endpoint_with("g1", 512, 2500)};
  Ledger before;
  before.given(grant("g0", "GPU-0", 5000), kNow);
  before.named({claim("u1", "g1", 512)}, {}, open, false, kNow);
  Ledger ledger(parse_shares(render_shares(before.shares())));
  EXPECT_THAT(ledger.shares(), SizeIs(2));
  ledger.named({claim("u1", "g1", 700)}, {}, open, false, kNow);
  EXPECT_EQ(ledger.shares().at({"g1", "GPU-0"}).memory, mib(700)) << "prepared again with a different allocation";
  ledger.named({}, {}, open, false, kNow);
  EXPECT_THAT(ledger.shares(), SizeIs(2)) << "its processes may run, though its record was lost";
  ledger.named({}, {}, kNotAnswered, false, kNow);
  EXPECT_THAT(ledger.shares(), SizeIs(2)) << "it is not known that it has no endpoint";
  ledger.named({claim("u1", "g1", 700)}, {}, kNone, false, kNow);
  EXPECT_THAT(ledger.shares(), SizeIs(2)) << "its endpoint comes back";
  ledger.named({}, {}, kNone, false, kNow);
  ASSERT_THAT(ledger.shares(), SizeIs(1));
  EXPECT_TRUE(ledger.shares().contains({"g0", "GPU-0"})) << "slots go by kubelet's lists";
}

TEST(LedgerShares, WhatKubeletDoesNotNameIsForgottenAfterTenMinutes) {
  Ledger ledger;
  ledger.given(grant("g0", "GPU-0", 5000), kNow);
  ledger.named({}, {}, kNotAnswered, true, kNow + 9min);
  EXPECT_THAT(ledger.shares(), SizeIs(1));
  ledger.named({}, {}, kNotAnswered, true, kNow + 11min);
  EXPECT_THAT(ledger.shares(), IsEmpty());
}

}  // namespace ledger_test
}  // namespace tranche::grants
