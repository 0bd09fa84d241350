#include "gpu/health/book.h"

#include <gmock/gmock.h>

#include <vector>

namespace tranche::health {
namespace book_test {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::IsEmpty;
constexpr MonoTime kStart{};
const Target kA{"GPU-a", "GPU-a"};
const Target kMig{"MIG-1", "GPU-a"};

Book five_minutes() {
  return Book({minutes(5)});
}

void drain(Book& book, MonoTime now, const Target& device = kA) {
  book.fault(device, 54, XidClass::kDrain, false, now);
}

// Answers whenever the book asks, until nothing is due or `end` is reached; returns when the last fault ended.
MonoTime answer_until_quiet(Book& book, MonoTime end) {
  while (const auto next = book.next_change()) {
    if (*next > end) break;
    EXPECT_TRUE(book.wants_look(*next));
    book.answered("GPU-a", 0, *next);
    if (book.faults().empty()) return *next;
  }
  return end;
}

TEST(Book, AnApplicationsXidAndANoticeHaveNoEffect) {
  Book book;
  book.fault(kA, 31, XidClass::kApplication, false, kStart);
  book.fault(kA, 14, XidClass::kIgnore, false, kStart);
  EXPECT_THAT(book.faults(), IsEmpty());
  EXPECT_EQ(book.next_change(), std::nullopt);
}

TEST(Book, RecoversAfterAQuietPeriodThatARepeatStartsAgain) {
  Book book = five_minutes();
  drain(book, kStart);
  EXPECT_EQ(book.next_change(), kStart + minutes(5));
  drain(book, kStart + seconds(9));  // of the same burst: no doubling
  EXPECT_EQ(book.next_change(), kStart + seconds(9) + minutes(5));
  book.answered("GPU-a", 0, kStart + minutes(5));
  EXPECT_EQ(book.faults().count("GPU-a"), 1u) << "not quiet for long enough";
  EXPECT_FALSE(book.wants_look(kStart + minutes(5)));
  EXPECT_EQ(answer_until_quiet(book, kStart + hours(9)), kStart + seconds(9) + minutes(5));
  EXPECT_THAT(book.faults(), IsEmpty());
  EXPECT_EQ(book.next_change(), std::nullopt);
}

TEST(Book, QuietAloneIsNoRecoveryTheGpuHasToAnswer) {
  Book book = five_minutes();
  drain(book, kStart);
  ASSERT_TRUE(book.wants_look(kStart + minutes(5)));
  EXPECT_FALSE(book.wants_look(kStart + minutes(5))) << "once is asked, then only after a while";
  EXPECT_EQ(book.faults().count("GPU-a"), 1u);
  EXPECT_EQ(book.next_change(), kStart + minutes(5) + seconds(30));
  ASSERT_TRUE(book.wants_look(kStart + minutes(6)));
  book.answered("GPU-b", 0, kStart + minutes(6));
  EXPECT_EQ(book.faults().count("GPU-a"), 1u) << "another GPU's answer";
  book.answered("GPU-a", std::nullopt, kStart + minutes(6));
  EXPECT_THAT(book.faults(), IsEmpty());
}

// Promise: health: Each further fault doubles the quiet period, up to twelve times its length.
TEST(Book, EveryFurtherFaultDoublesTheQuietPeriodUpToTwelveTimes) {
  Book book = five_minutes();
  MonoTime now = kStart;
  for (const int expected : {5, 10, 20, 40, 60, 60}) {
    drain(book, now);
    EXPECT_EQ(book.next_change(), now + minutes(expected));
    now = answer_until_quiet(book, now + hours(9)) + seconds(1);
    ASSERT_THAT(book.faults(), IsEmpty());
  }
}

TEST(Book, ACalmForgetsOneDoublingAtATime) {
  Book book = five_minutes();
  drain(book, kStart);
  drain(book, kStart + minutes(1));
  drain(book, kStart + minutes(2));  // doubled twice
  MonoTime now = answer_until_quiet(book, kStart + hours(9));
  EXPECT_EQ(now, kStart + minutes(22));
  now += minutes(65);  // a calm of one hour, and this fault
  drain(book, now);
  EXPECT_EQ(book.next_change(), now + minutes(20));
  now = answer_until_quiet(book, now + hours(9)) + hours(4);
  drain(book, now);
  EXPECT_EQ(book.next_change(), now + minutes(5)) << "all forgotten";
}

TEST(Book, AResetIsNotWaitedOutButSeen) {
  Book book = five_minutes();
  book.fault(kA, 95, XidClass::kReset, false, kStart);
  drain(book, kStart);  // a lesser fault does not hide it
  EXPECT_EQ(answer_until_quiet(book, kStart + hours(9)), kStart + hours(9));
  EXPECT_EQ(book.faults().at("GPU-a").cause, Cause::kReset);
  EXPECT_THAT(book.faults().at("GPU-a").why, HasSubstr("XID 95"));
  book.back("GPU-a", kStart + hours(10));
  EXPECT_THAT(book.faults(), IsEmpty());
}

TEST(Book, AResetIsAlsoOverWhenTheDriverAskedForItAndDoesNotAnyMore) {
  Book book = five_minutes();
  book.fault(kA, 95, XidClass::kReset, false, kStart);
  book.answered("GPU-a", 0, kStart + seconds(1));
  EXPECT_EQ(book.faults().size(), 1u) << "it has asked for nothing yet";
  book.answered("GPU-a", 1, kStart + seconds(2));
  EXPECT_THAT(book.faults().at("GPU-a").why, HasSubstr("a reset of the GPU"));
  book.answered("GPU-a", std::nullopt, kStart + minutes(9));
  EXPECT_EQ(book.faults().size(), 1u) << "no word is not a word";
  book.answered("GPU-a", 0, kStart + minutes(10));
  EXPECT_THAT(book.faults(), IsEmpty());
}

TEST(Book, WhatTheDriverAsksForIsAFaultByItselfAndKeepsOthersOpen) {
  Book book = five_minutes();
  drain(book, kStart, kMig);
  book.answered("GPU-a", 2, kStart + minutes(6));
  EXPECT_EQ(book.faults().size(), 2u);
  EXPECT_EQ(book.faults().at("GPU-a").cause, Cause::kReset);
  EXPECT_THAT(book.faults().at("MIG-1").why, HasSubstr("a reboot of the node"));
  book.back("GPU-a", kStart + minutes(7));
  EXPECT_THAT(book.faults(), IsEmpty());
  for (const std::uint32_t harmless : {0u, 3u, 5u}) book.answered("GPU-a", harmless, kStart + minutes(8));
  EXPECT_THAT(book.faults(), IsEmpty());
}

TEST(Book, ALostGpuIsBackAtOnceTheFirstTimeAndWatchedTheNext) {
  Book book = five_minutes();
  book.lost("GPU-a", kStart);
  book.lost("GPU-a", kStart + minutes(1));  // reported again
  EXPECT_EQ(book.faults().at("GPU-a").cause, Cause::kLost);
  EXPECT_EQ(book.next_change(), std::nullopt) << "nothing to wait for but its return";
  book.answered("GPU-a", 0, kStart + minutes(59));
  EXPECT_EQ(book.faults().size(), 1u);
  book.back("GPU-a", kStart + minutes(61));
  EXPECT_THAT(book.faults(), IsEmpty());
  book.lost("GPU-a", kStart + minutes(62));
  book.back("GPU-a", kStart + minutes(63));
  EXPECT_EQ(book.faults().at("GPU-a").cause, Cause::kXid);
  EXPECT_THAT(book.faults().at("GPU-a").why, HasSubstr("back after repeated faults"));
  EXPECT_EQ(answer_until_quiet(book, kStart + hours(9)), kStart + minutes(68));
}

TEST(Book, AReturnEndsTheFaultsOfTheGpusMigDevicesToo) {
  Book book = five_minutes();
  book.fault(kMig, 95, XidClass::kReset, false, kStart);
  drain(book, kStart, {"MIG-9", "GPU-b"});
  EXPECT_EQ(book.faults().count("GPU-a"), 0u) << "the MIG device alone";
  book.back("GPU-a", kStart + minutes(1));
  EXPECT_EQ(book.faults().count("MIG-1"), 0u);
  EXPECT_EQ(book.faults().count("MIG-9"), 1u);
}

TEST(Book, AGpuThatCannotBeWatchedIsUnhealthyUntilItCan) {
  Book book;
  book.unwatched("GPU-a", "nvmlDeviceRegisterEvents: Unknown Error");
  EXPECT_EQ(book.faults().at("GPU-a").cause, Cause::kUnwatched);
  EXPECT_THAT(book.faults().at("GPU-a").why, HasSubstr("Unknown Error"));
  drain(book, kStart);
  EXPECT_EQ(book.faults().at("GPU-a").cause, Cause::kXid) << "a fault that was seen says more";
  book.back("GPU-a", kStart + seconds(1));
  EXPECT_EQ(book.faults().at("GPU-a").cause, Cause::kUnwatched);
  book.watched("GPU-a");
  EXPECT_THAT(book.faults(), IsEmpty());
}

TEST(Book, TheReasonSaysWhichXidWhatItMeansAndWhatEndsIt) {
  Book book = five_minutes();
  book.fault(kA, 79, XidClass::kDrain, true, kStart);
  EXPECT_EQ(book.faults().at("GPU-a").why,
            "XID 79 (the GPU has fallen off the bus), and the driver would not say on which GPU: receives no new pods "
            "until it responds and 5m pass without a further fault");
  book.fault(kA, 12345, XidClass::kReset, false, kStart);
  EXPECT_EQ(book.faults().at("GPU-a").why,
            "XID 12345 (not in our table): the GPU needs a reset; drain its pods, then reset the GPU: `nvidia-smi "
            "--gpu-reset -i GPU-a`, or reboot (not `tranche reset`)");
}

TEST(Book, ForgetsDevicesThatAreNoMore) {
  Book book;
  drain(book, kStart, kMig);
  drain(book, kStart);
  inventory::Inventory node;
  node.gpus.resize(1);
  node.gpus[0].uuid = "GPU-a";
  book.keep_only(node);
  EXPECT_EQ(book.faults().count("MIG-1"), 0u);
  EXPECT_EQ(book.faults().count("GPU-a"), 1u);
}

}  // namespace book_test
}  // namespace tranche::health
