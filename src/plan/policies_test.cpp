// The limits of a grant by the policy of its device: docs/guide/share-sizes.md, row by row.
#include <gmock/gmock.h>

#include "plan/shares.h"

namespace tranche::plan {
namespace policies_test {

using config::MemoryPolicy;
using config::ThreadsPolicy;
using Threads = ThreadsPolicy::Kind;
using Memory = MemoryPolicy::Kind;

PlannedDevice h200(std::uint32_t slots) {
  PlannedDevice device;
  device.slots = slots;
  device.memory = {150754820096};
  device.sm_count = 132;
  device.compute_capability = {9, 0};
  device.policy.rounding = config::SmRounding::kOff;
  return device;
}
PlannedDevice with(PlannedDevice device, ThreadsPolicy threads, MemoryPolicy memory = {}, Bytes reserve = {}) {
  device.policy.threads = threads;
  device.policy.memory = memory;
  device.policy.reserve = reserve;
  return device;
}

// Promise: plan/shares: `equal` is the part that the slots are.
TEST(Policies, EqualIsAPartByTheSlotsHeld) {
  EXPECT_EQ(share_of(h200(20), 1), (ShareLimits{mib(7188), Percent::whole(5), 8}));
  EXPECT_EQ(share_of(h200(20), 10), (ShareLimits{mib(71885), Percent::whole(50), 66}));
  EXPECT_EQ(share_of(h200(40), 20).threads, Percent::whole(50)) << "by how many slots there are, not by 20";
  EXPECT_EQ(share_of(h200(5), 5), (ShareLimits{mib(143771), Percent::whole(100), 132}));
  EXPECT_EQ(share_of(h200(20), 99), share_of(h200(20), 20)) << "never more than there is";
}

TEST(Policies, AThousandSlotsHaveSharesOfTheirOwn) {
  EXPECT_EQ(share_of(h200(1000), 300), (ShareLimits{mib(43131), Percent::whole(30), 38}));
  EXPECT_EQ(share_of(h200(1000), 700), (ShareLimits{mib(100639), Percent::whole(70), 92}));
  EXPECT_EQ(share_of(h200(1000), 333).threads, Percent{3330});
  EXPECT_EQ(share_of(h200(1000), 1), (ShareLimits{mib(143), Percent{10}, 8})) << "the driver's floor";
  EXPECT_EQ(share_of(h200(101), 1).threads, Percent{99}) << "beyond 100 slots hundredths of a percent";
  EXPECT_EQ(share_of(h200(100), 1).threads, Percent::whole(1));
}

// Promise: plan/shares: A factor multiplies before rounding and ends at the whole.
TEST(Policies, AFactorMultipliesBeforeItRoundsAndEndsAtAll) {
  const ThreadsPolicy twice{Threads::kFactor, 200, 0};
  EXPECT_EQ(share_of(with(h200(6), twice), 1).threads, Percent::whole(33)) << "200 / 6, not 2 × 16";
  EXPECT_EQ(share_of(with(h200(4), twice), 1).threads, Percent::whole(50));
  EXPECT_EQ(share_of(with(h200(4), twice), 3).threads, Percent::whole(100));
  EXPECT_EQ(share_of(with(h200(1000), twice), 1).threads, Percent{20});
  const MemoryPolicy more{Memory::kFactor, 150, {}};
  EXPECT_EQ(share_of(with(h200(10), {}, more), 1).memory, mib(21565));
  EXPECT_EQ(share_of(with(h200(10), {}, more), 9).memory, mib(143771));
}

// Promise: plan/shares: `open` is the whole and is written out.
TEST(Policies, OpenIsAllOfItAndWrittenOut) {
  const auto open = with(h200(20), {.kind = Threads::kOpen}, {.kind = Memory::kOpen}, mib(681));
  EXPECT_EQ(share_of(open, 1), (ShareLimits{mib(143771), Percent::whole(100), 132}));
}

TEST(Policies, ATenantsOwnShareEndsWhereAnEqualOneDoes) {
  const auto tenant = with(h200(20), {.kind = Threads::kTenant}, {.kind = Memory::kTenant});
  for (const std::uint32_t held : {1u, 7u, 20u}) EXPECT_EQ(share_of(tenant, held), share_of(h200(20), held));
}

// Promise: plan/shares: A number of SMs is the smallest percentage that yields it.
TEST(Policies, AnExactNumberOfSmsIsTheSmallestPercentageThatYieldsIt) {
  EXPECT_EQ(threads_for(16, 132), Percent::whole(13)) << "12.13 would do, and so does the whole one";
  EXPECT_EQ(threads_for(8, 132), Percent::whole(7));
  EXPECT_EQ(threads_for(66, 132), Percent::whole(50));
  EXPECT_EQ(threads_for(17, 132), threads_for(18, 132)) << "SMs come in pairs";
  EXPECT_EQ(threads_for(132, 132), Percent::whole(100));
  EXPECT_EQ(threads_for(200, 132), Percent::whole(100));
  EXPECT_EQ(threads_for(16, 0), Percent::whole(100));
  for (std::uint32_t all = 14; all <= 160; ++all)
    for (std::uint32_t sms = 8; sms <= all; ++sms) {
      const Percent threads = threads_for(sms, all);
      ASSERT_GE(sms_at(threads, all), std::min(sms, sms_at(Percent::whole(100), all))) << sms << " of " << all;
      ASSERT_LE(sms_at(threads, all), std::max(8u, std::min(sms + 1, all))) << sms << " of " << all;
    }
  const auto exact = with(h200(4), {Threads::kSms, 100, 16});
  EXPECT_EQ(share_of(exact, 1).sms, 16u);
  EXPECT_EQ(share_of(exact, 2).sms, 32u);
  EXPECT_EQ(share_of(exact, 4).sms, 64u);
}

// Promise: plan/shares: A number of SMs that computes wrong is rounded.
TEST(Policies, AnExactNumberOfSmsIsRoundedWhereItComputesWrong) {
  auto exact = with(h200(4), {Threads::kSms, 100, 20});
  exact.policy.rounding = config::SmRounding::kUp;
  EXPECT_EQ(share_of(exact, 1).sms, 30u);
  exact.sm_count = 0;
  EXPECT_EQ(share_of(exact, 1).threads, Percent::whole(25)) << "of an unknown number: an equal part";
}

// Promise: plan/shares: A memory size counts for each slot, up to the whole.
TEST(Policies, ASizeOfMemoryCountsForEverySlotUpToAllOfIt) {
  const auto sized = with(h200(20), {}, {Memory::kSize, 100, gib(10)});
  EXPECT_EQ(share_of(sized, 1).memory, gib(10));
  EXPECT_EQ(share_of(sized, 3).memory, gib(30));
  EXPECT_EQ(share_of(sized, 20).memory, mib(143771));
}

// Promise: plan/shares: The reserve is subtracted before the division.
TEST(Policies, TheReserveIsTakenOffBeforeAnythingIsDivided) {
  EXPECT_EQ(reserve_of({config::Reserve::Kind::kAuto, {}}, false), mib(681));
  EXPECT_EQ(reserve_of({config::Reserve::Kind::kAuto, {}}, true), mib(66)) << "a MIG device has lost the driver's part";
  EXPECT_EQ(reserve_of({config::Reserve::Kind::kSize, mib(600)}, true), mib(600));
  EXPECT_EQ(reserve_of({}, false), Bytes{});
  const auto reserved = with(h200(10), {}, {}, mib(681));
  EXPECT_EQ(share_of(reserved, 1).memory, mib(14309)) << "(143771 - 681) / 10";
  EXPECT_EQ(share_of(reserved, 10).memory, mib(143090));
  EXPECT_EQ(slots_of(gib(4), mib(143771), mib(681)), 34u);
  EXPECT_EQ(slots_of(gib(4), mib(143771), {}), 35u);
  EXPECT_EQ(slots_of(gib(4), mib(15360), {}), 3u);
  EXPECT_EQ(slots_of(gib(80), mib(15360), {}), 0u);
  EXPECT_EQ(slots_of(gib(1), mib(600), mib(681)), 0u);
}

// Promise: plan/shares: Rounding never turns a limit into no limit.
TEST(Policies, NothingIsEverRoundedToNone) {
  auto tiny = with(h200(1000), {Threads::kFactor, 1, 0}, {Memory::kFactor, 1, {}});
  tiny.memory = mib(16);
  EXPECT_EQ(share_of(tiny, 1).memory, mib(1));
  EXPECT_GT(share_of(tiny, 1).threads.hundredths, 0u);
  tiny.memory = {};
  EXPECT_EQ(share_of(tiny, 1).memory, Bytes{}) << "memory that is not known is not limited";
}

TEST(Policies, SizesWorthShowingAreOneTwoFive) {
  EXPECT_THAT(request_sizes(1), testing::ElementsAre(1));
  EXPECT_THAT(request_sizes(20), testing::ElementsAre(1, 2, 5, 10, 20));
  EXPECT_THAT(request_sizes(1000), testing::ElementsAre(1, 2, 5, 10, 20, 50, 100, 200, 500, 1000));
  EXPECT_THAT(request_sizes(0), testing::IsEmpty());
}

}  // namespace policies_test
}  // namespace tranche::plan
