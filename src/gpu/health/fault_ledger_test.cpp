#include "gpu/health/fault_ledger.h"

#include <gmock/gmock.h>

namespace tranche::gpu {
namespace fault_ledger_test {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::IsEmpty;
constexpr MonoTime kStart{};
const FaultTarget kA{"GPU-a", "GPU-a"};
const FaultTarget kMig{"MIG-1", "GPU-a"};

FaultLedger five_minutes() {
  return FaultLedger({minutes(5)});
}

void drain(FaultLedger& ledger, MonoTime now, const FaultTarget& device = kA) {
  ledger.fault(device, 54, XidClass::kDrain, false, now);
}

// Answers whenever the ledger asks, until nothing is due or `end` is reached; returns when the last fault ended.
MonoTime answer_until_quiet(FaultLedger& ledger, MonoTime end) {
  while (const auto next = ledger.next_change()) {
    if (*next > end) break;
    EXPECT_TRUE(ledger.wants_look(*next));
    ledger.answered("GPU-a", 0, *next);
    if (ledger.faults().empty()) return *next;
  }
  return end;
}

TEST(FaultLedger, AnApplicationsXidAndANoticeHaveNoEffect) {
  FaultLedger ledger;
  ledger.fault(kA, 31, XidClass::kApplication, false, kStart);
  ledger.fault(kA, 14, XidClass::kIgnore, false, kStart);
  EXPECT_THAT(ledger.faults(), IsEmpty());
  EXPECT_EQ(ledger.next_change(), std::nullopt);
}

TEST(FaultLedger, RecoversAfterAQuietPeriodThatARepeatStartsAgain) {
  FaultLedger ledger = five_minutes();
  drain(ledger, kStart);
  EXPECT_EQ(ledger.next_change(), kStart + minutes(5));
  drain(ledger, kStart + seconds(9));  // of the same burst: no doubling
  EXPECT_EQ(ledger.next_change(), kStart + seconds(9) + minutes(5));
  ledger.answered("GPU-a", 0, kStart + minutes(5));
  EXPECT_EQ(ledger.faults().count("GPU-a"), 1u) << "not quiet for long enough";
  EXPECT_FALSE(ledger.wants_look(kStart + minutes(5)));
  EXPECT_EQ(answer_until_quiet(ledger, kStart + hours(9)), kStart + seconds(9) + minutes(5));
  EXPECT_THAT(ledger.faults(), IsEmpty());
  EXPECT_EQ(ledger.next_change(), std::nullopt);
}

TEST(FaultLedger, QuietAloneIsNoRecoveryTheGpuHasToAnswer) {
  FaultLedger ledger = five_minutes();
  drain(ledger, kStart);
  ASSERT_TRUE(ledger.wants_look(kStart + minutes(5)));
  EXPECT_FALSE(ledger.wants_look(kStart + minutes(5))) << "once is asked, then only after a while";
  EXPECT_EQ(ledger.faults().count("GPU-a"), 1u);
  EXPECT_EQ(ledger.next_change(), kStart + minutes(5) + seconds(30));
  ASSERT_TRUE(ledger.wants_look(kStart + minutes(6)));
  ledger.answered("GPU-b", 0, kStart + minutes(6));
  EXPECT_EQ(ledger.faults().count("GPU-a"), 1u) << "another GPU's answer";
  ledger.answered("GPU-a", std::nullopt, kStart + minutes(6));
  EXPECT_THAT(ledger.faults(), IsEmpty());
}

// Promise: health: Each further fault doubles the quiet period, up to twelve times its length.
TEST(FaultLedger, EveryFurtherFaultDoublesTheQuietPeriodUpToTwelveTimes) {
  FaultLedger ledger = five_minutes();
  MonoTime now = kStart;
  for (const int expected : {5, 10, 20, 40, 60, 60}) {
    drain(ledger, now);
    EXPECT_EQ(ledger.next_change(), now + minutes(expected));
    now = answer_until_quiet(ledger, now + hours(9)) + seconds(1);
    ASSERT_THAT(ledger.faults(), IsEmpty());
  }
}

TEST(FaultLedger, ACalmForgetsOneDoublingAtATime) {
  FaultLedger ledger = five_minutes();
  drain(ledger, kStart);
  drain(ledger, kStart + minutes(1));
  drain(ledger, kStart + minutes(2));  // doubled twice
  MonoTime now = answer_until_quiet(ledger, kStart + hours(9));
  EXPECT_EQ(now, kStart + minutes(22));
  now += minutes(65);  // a calm of one hour, and this fault
  drain(ledger, now);
  EXPECT_EQ(ledger.next_change(), now + minutes(20));
  now = answer_until_quiet(ledger, now + hours(9)) + hours(4);
  drain(ledger, now);
  EXPECT_EQ(ledger.next_change(), now + minutes(5)) << "all forgotten";
}

TEST(FaultLedger, AResetIsNotWaitedOutButSeen) {
  FaultLedger ledger = five_minutes();
  ledger.fault(kA, 95, XidClass::kReset, false, kStart);
  drain(ledger, kStart);  // a lesser fault does not hide it
  EXPECT_EQ(answer_until_quiet(ledger, kStart + hours(9)), kStart + hours(9));
  EXPECT_EQ(ledger.faults().at("GPU-a").cause, Cause::kReset);
  EXPECT_THAT(ledger.faults().at("GPU-a").why, HasSubstr("XID 95"));
  ledger.back("GPU-a", kStart + hours(10));
  EXPECT_THAT(ledger.faults(), IsEmpty());
}

TEST(FaultLedger, AResetIsAlsoOverWhenTheDriverAskedForItAndDoesNotAnyMore) {
  FaultLedger ledger = five_minutes();
  ledger.fault(kA, 95, XidClass::kReset, false, kStart);
  ledger.answered("GPU-a", 0, kStart + seconds(1));
  EXPECT_EQ(ledger.faults().size(), 1u) << "it has asked for nothing yet";
  ledger.answered("GPU-a", 1, kStart + seconds(2));
  EXPECT_THAT(ledger.faults().at("GPU-a").why, HasSubstr("a reset of the GPU"));
  ledger.answered("GPU-a", std::nullopt, kStart + minutes(9));
  EXPECT_EQ(ledger.faults().size(), 1u) << "no word is not a word";
  ledger.answered("GPU-a", 0, kStart + minutes(10));
  EXPECT_THAT(ledger.faults(), IsEmpty());
}

TEST(FaultLedger, WhatTheDriverAsksForIsAFaultByItselfAndKeepsOthersOpen) {
  FaultLedger ledger = five_minutes();
  drain(ledger, kStart, kMig);
  ledger.answered("GPU-a", 2, kStart + minutes(6));
  EXPECT_EQ(ledger.faults().size(), 2u);
  EXPECT_EQ(ledger.faults().at("GPU-a").cause, Cause::kReset);
  EXPECT_THAT(ledger.faults().at("MIG-1").why, HasSubstr("a reboot of the node"));
  ledger.back("GPU-a", kStart + minutes(7));
  EXPECT_THAT(ledger.faults(), IsEmpty());
  for (const std::uint32_t harmless : {0u, 3u, 5u}) ledger.answered("GPU-a", harmless, kStart + minutes(8));
  EXPECT_THAT(ledger.faults(), IsEmpty());
}

TEST(FaultLedger, ALostGpuIsBackAtOnceTheFirstTimeAndWatchedTheNext) {
  FaultLedger ledger = five_minutes();
  ledger.lost("GPU-a", kStart);
  ledger.lost("GPU-a", kStart + minutes(1));  // reported again
  EXPECT_EQ(ledger.faults().at("GPU-a").cause, Cause::kLost);
  EXPECT_EQ(ledger.next_change(), std::nullopt) << "nothing to wait for but its return";
  ledger.answered("GPU-a", 0, kStart + minutes(59));
  EXPECT_EQ(ledger.faults().size(), 1u);
  ledger.back("GPU-a", kStart + minutes(61));
  EXPECT_THAT(ledger.faults(), IsEmpty());
  ledger.lost("GPU-a", kStart + minutes(62));
  ledger.back("GPU-a", kStart + minutes(63));
  EXPECT_EQ(ledger.faults().at("GPU-a").cause, Cause::kXid);
  EXPECT_THAT(ledger.faults().at("GPU-a").why, HasSubstr("back after repeated faults"));
  EXPECT_EQ(answer_until_quiet(ledger, kStart + hours(9)), kStart + minutes(68));
}

TEST(FaultLedger, AReturnEndsTheFaultsOfTheGpusMigDevicesToo) {
  FaultLedger ledger = five_minutes();
  ledger.fault(kMig, 95, XidClass::kReset, false, kStart);
  drain(ledger, kStart, {"MIG-9", "GPU-b"});
  EXPECT_EQ(ledger.faults().count("GPU-a"), 0u) << "the MIG device alone";
  ledger.back("GPU-a", kStart + minutes(1));
  EXPECT_EQ(ledger.faults().count("MIG-1"), 0u);
  EXPECT_EQ(ledger.faults().count("MIG-9"), 1u);
}

TEST(FaultLedger, AGpuThatCannotBeWatchedIsUnhealthyUntilItCan) {
  FaultLedger ledger;
  ledger.unwatched("GPU-a", "nvmlDeviceRegisterEvents: Unknown Error");
  EXPECT_EQ(ledger.faults().at("GPU-a").cause, Cause::kUnwatched);
  EXPECT_THAT(ledger.faults().at("GPU-a").why, HasSubstr("Unknown Error"));
  drain(ledger, kStart);
  EXPECT_EQ(ledger.faults().at("GPU-a").cause, Cause::kXid) << "an observed fault is the more precise cause";
  ledger.back("GPU-a", kStart + seconds(1));
  EXPECT_EQ(ledger.faults().at("GPU-a").cause, Cause::kUnwatched);
  ledger.watched("GPU-a");
  EXPECT_THAT(ledger.faults(), IsEmpty());
}

TEST(FaultLedger, TheReasonSaysWhichXidWhatItMeansAndWhatEndsIt) {
  FaultLedger ledger = five_minutes();
  ledger.fault(kA, 79, XidClass::kDrain, true, kStart);
  EXPECT_EQ(ledger.faults().at("GPU-a").why,
            "XID 79 (the GPU has fallen off the bus), and the driver would not say on which GPU: receives no new pods "
            "until it responds and 5m pass without a further fault");
  ledger.fault(kA, 12345, XidClass::kReset, false, kStart);
  EXPECT_EQ(ledger.faults().at("GPU-a").why,
            "XID 12345 (not in our table): the GPU needs a reset; drain its pods, then reset the GPU: `nvidia-smi "
            "--gpu-reset -i GPU-a`, or reboot (not `tranche reset`)");
}

TEST(FaultLedger, ForgetsDevicesThatAreNoMore) {
  FaultLedger ledger;
  drain(ledger, kStart, kMig);
  drain(ledger, kStart);
  Inventory node;
  node.gpus.resize(1);
  node.gpus[0].uuid = "GPU-a";
  ledger.keep_only(node);
  EXPECT_EQ(ledger.faults().count("MIG-1"), 0u);
  EXPECT_EQ(ledger.faults().count("GPU-a"), 1u);
}

}  // namespace fault_ledger_test
}  // namespace tranche::gpu
