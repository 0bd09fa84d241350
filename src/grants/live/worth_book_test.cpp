#include "grants/live/worth_book.h"

#include <gmock/gmock.h>

#include "guard/tenants.h"
#include "os/files/scratch.h"

namespace tranche::agent {
namespace worth_book_test {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const MonoTime kNow{1000s};

allocate::Grant grant(const std::string& id, const std::string& device, std::uint64_t memory_mib) {
  allocate::Grant made;
  made.id = id;
  made.resource = "nvidia.com/gpu";
  made.pool = "set-1";
  made.devices = {{device, 5, {mib(memory_mib), Percent::whole(25), 32}}};
  return made;
}

Holder holder(const std::string& pod, const std::string& grant, const std::string& device, std::uint64_t memory_mib) {
  return {"default", pod, "main", "nvidia.com/gpu", {}, {{device, 5, {mib(memory_mib), Percent::whole(25), 32}}},
          grant};
}

plan::Plan plan_of(const std::string& device) {
  plan::Plan plan;
  plan.resources.resize(1);
  plan.resources[0].name = "nvidia.com/gpu";
  plan.resources[0].devices.resize(1);
  plan.resources[0].devices[0].uuid = device;
  plan.resources[0].devices[0].pool = "set-9";
  return plan;
}

class WorthBooks : public ::testing::Test {
 protected:
  host::Scratch scratch_;
};

TEST_F(WorthBooks, KeepsWhatAGrantWasWorthOverRestartsAndOtherPlans) {
  WorthBook book(scratch_.path());
  book.given({grant("g0", "GPU-0", 5000)}, kNow);
  WorthBook again(scratch_.path());
  EXPECT_EQ(again.worths(), book.worths());
  again.held({holder("a", "g0", "GPU-0", 700)}, plan_of("GPU-0"), {}, true, kNow);
  const auto& worth = again.worths().at({"g0", "GPU-0"});
  EXPECT_EQ(worth.memory, mib(5000));
  EXPECT_EQ(worth.pool, "set-1") << "where its endpoint stands";
  EXPECT_EQ(worth.threads, Percent::whole(25));
}

TEST_F(WorthBooks, WhatIsLostIsTakenFromTheEndpointAndElseFromThePlan) {
  PoolReports pools;
  pools.pools["set-1"].endpoints = {{"g0", {}, true, "", EndpointLimits{{"GPU-0", 5000, 2500}}}};
  WorthBook book(scratch_.path());
  book.held({holder("a", "g0", "GPU-0", 700)}, plan_of("GPU-0"), {}, true, kNow);
  EXPECT_THAT(book.worths(), IsEmpty()) << "while it is not there to be asked";
  pools.connected = true;
  book.held({holder("a", "g0", "GPU-0", 700), holder("b", "g1", "GPU-0", 700)}, plan_of("GPU-0"), pools, true, kNow);
  EXPECT_EQ(book.worths().at({"g0", "GPU-0"}).memory, mib(5000)) << "as it was given";
  EXPECT_EQ(book.worths().at({"g0", "GPU-0"}).pool, "set-1");
  EXPECT_EQ(book.worths().at({"g1", "GPU-0"}).memory, mib(700)) << "as it would be given now";
}

// Promise: guard: One tenant's grants stay together over a restart.
TEST_F(WorthBooks, GrantsOfOneContainerAreOneTenantAlsoAfterARestart) {
  {
    WorthBook book(scratch_.path());
    book.given({grant("g0", "GPU-0", 5000), grant("g1", "GPU-1", 3000)}, kNow);
    EXPECT_TRUE(book.awaits_kubelet(kNow + 1s));
    EXPECT_FALSE(book.awaits_kubelet(kNow + 1min)) << "its pod has come to nothing";
    book.held({holder("a", "g0", "GPU-0", 1), holder("a", "g1", "GPU-1", 1)}, {}, {}, true, kNow + 1s);
    EXPECT_FALSE(book.awaits_kubelet(kNow + 1s));
  }
  const WorthBook again(scratch_.path());
  const auto tenants = guard::tenants_of(again.worths());
  ASSERT_THAT(tenants, SizeIs(1));
  EXPECT_THAT(tenants.at("g0").grants, ElementsAre("g0", "g1"));
}

TEST_F(WorthBooks, GivenAnewAGrantIsWorthWhatItIsNowAndNobodys) {
  WorthBook book(scratch_.path());
  book.given({grant("g0", "GPU-0", 5000), grant("g1", "GPU-1", 3000)}, kNow);
  book.held({holder("a", "g0", "GPU-0", 1), holder("a", "g1", "GPU-1", 1)}, {}, {}, true, kNow);
  book.given({grant("g0", "GPU-0", 700)}, kNow + 1min);
  const auto tenants = guard::tenants_of(book.worths());
  ASSERT_THAT(tenants, SizeIs(2));
  EXPECT_EQ(tenants.at("g0").devices.at("GPU-0").memory, mib(700));
  EXPECT_FALSE(tenants.at("g0").told);
  auto without_endpoint = grant("g0", "GPU-0", 1);
  without_endpoint.pool.clear();
  book.given({without_endpoint}, kNow + 2min);
  EXPECT_FALSE(book.worths().contains({"g0", "GPU-0"})) << "the slots are no share of MPS any more";
}

TEST_F(WorthBooks, GrantsOfClaimsAreNeverOneTenant) {
  WorthBook book(scratch_.path());
  book.given({grant("g0", "GPU-0", 60000), grant("g1", "GPU-0", 512)}, kNow);
  book.held({holder("train-0", "g0", "GPU-0", 1), holder("train-0", "g1", "GPU-0", 1)}, {}, {}, true, kNow);
  ASSERT_THAT(guard::tenants_of(book.worths()), SizeIs(1)) << "as an earlier release wrote";
  auto first = holder("train-0", "g0", "GPU-0", 60000), second = holder("train-0", "g1", "GPU-0", 512);
  first.claim = "train-0-gpu-x7k2p";
  first.claim_uid = "u0";
  second.claim = "train-0";
  second.claim_uid = "u1";
  book.held({first, second}, {}, {}, true, kNow);
  const auto tenants = guard::tenants_of(book.worths());
  ASSERT_THAT(tenants, SizeIs(2));
  EXPECT_EQ(tenants.at("g0").devices.at("GPU-0").memory, mib(60000));
  EXPECT_EQ(tenants.at("g1").devices.at("GPU-0").memory, mib(512));
}

TEST_F(WorthBooks, AClaimIsWorthWhatItsRecordSaysWhateverItsEndpointWasTold) {
  PoolReports pools;
  pools.connected = true;
  pools.pools["set-1"].endpoints = {{"g1", {}, true, "", EndpointLimits{{"GPU-0", 61952, 5500}}}};
  auto claim = holder("claim:train-0", "g1", "GPU-0", 512);
  claim.claim = "train-0";
  claim.claim_uid = "u1";
  WorthBook book(scratch_.path());
  book.held({claim}, {}, pools, true, kNow);
  EXPECT_EQ(book.worths().at({"g1", "GPU-0"}).memory, mib(512));
  EXPECT_EQ(book.worths().at({"g1", "GPU-0"}).threads, Percent::whole(25));
}

// Promise: guard: What a claim was worth is forgotten once it is unprepared, and not while it has an endpoint.
TEST_F(WorthBooks, AClaimIsForgottenOnceItsEndpointIsClosed) {
  auto claim = holder("claim:train-0", "g1", "GPU-0", 512);
  claim.resource = "gpu.tranche.io";
  claim.claim = "train-0";
  claim.claim_uid = "u1";
  PoolReports pools;
  pools.connected = true;
  pools.pools["set-1"].endpoints = {{"g1", {}, true, "", EndpointLimits{{"GPU-0", 512, 2500}}}};
  {
    WorthBook book(scratch_.path());
    book.given({grant("g0", "GPU-0", 5000)}, kNow);
    book.held({claim}, {}, pools, false, kNow);
  }
  WorthBook book(scratch_.path());
  EXPECT_THAT(book.worths(), SizeIs(2));
  claim.devices[0].limits.memory = mib(700);
  book.held({claim}, {}, pools, false, kNow);
  EXPECT_EQ(book.worths().at({"g1", "GPU-0"}).memory, mib(700)) << "prepared anew with another allocation";
  book.held({}, {}, pools, false, kNow);
  EXPECT_THAT(book.worths(), SizeIs(2)) << "its processes may run, though its record was lost";
  pools.pools["set-1"].endpoints.clear();
  pools.connected = false;
  book.held({}, {}, pools, false, kNow);
  EXPECT_THAT(book.worths(), SizeIs(2)) << "nobody says that it has no endpoint";
  pools.connected = true;
  book.held({claim}, {}, pools, false, kNow);
  EXPECT_THAT(book.worths(), SizeIs(2)) << "its endpoint comes back";
  book.held({}, {}, pools, false, kNow);
  ASSERT_THAT(book.worths(), SizeIs(1));
  EXPECT_TRUE(book.worths().contains({"g0", "GPU-0"})) << "slots are kubelet's to tell";
  EXPECT_EQ(WorthBook(scratch_.path()).worths(), book.worths());
}

TEST_F(WorthBooks, WhatKubeletNamesNoMoreIsForgottenAfterAWhile) {
  WorthBook book(scratch_.path());
  book.given({grant("g0", "GPU-0", 5000)}, kNow);
  book.held({}, {}, {}, true, kNow + 9min);
  EXPECT_THAT(book.worths(), SizeIs(1));
  book.held({}, {}, {}, true, kNow + 11min);
  EXPECT_THAT(book.worths(), IsEmpty());
}

}  // namespace worth_book_test
}  // namespace tranche::agent
