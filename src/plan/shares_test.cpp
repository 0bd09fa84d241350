#include "plan/shares.h"

#include <gmock/gmock.h>

namespace tranche::plan {
namespace shares_test {

using config::SmRounding;
constexpr gpu::ComputeCapability kHopper{9, 0};
constexpr Bytes kH200{150754820096};

ShareLimits share_of_h200(std::uint32_t held, std::uint32_t slots, SmRounding rounding) {
  PlannedDevice device;
  device.slots = slots;
  device.memory = kH200;
  device.sm_count = 132;
  device.compute_capability = kHopper;
  device.policy.rounding = rounding;
  return share_of(device, held);
}

TEST(SharesTest, MemoryIsNvidiasDivision) {
  EXPECT_EQ(memory_share(mib(143771), 1, 10), mib(14377));
  EXPECT_EQ(memory_share(mib(143771), 3, 10), mib(43131));
  EXPECT_EQ(memory_share(mib(40960), 1, 10), mib(4096));
  EXPECT_EQ(memory_share(mib(32604), 1, 20), mib(1630));  // 31.84 GiB
  EXPECT_EQ(memory_share(mib(15360), 1, 4), mib(3840));   // which the daemon displays as 3G
  for (std::uint32_t n = 1; n <= 100; ++n)
    EXPECT_EQ(memory_share(kH200, 1, n).in_mib(), kH200.value / n / 1024 / 1024) << n;
}

TEST(SharesTest, ALimitIsNeverZero) {
  EXPECT_EQ(memory_share(mib(10), 1, 48), mib(1));
  EXPECT_EQ(threads_share(1, 100), Percent::whole(1));
  EXPECT_EQ(threads_share(1, 1000), Percent{10}) << "a tenth of a percent";
  EXPECT_EQ(threads_share(1, 65535), Percent{1});
  EXPECT_EQ(memory_share({}, 1, 4), Bytes{});  // unknown memory cannot be limited
}

TEST(SharesTest, AShareIsNeverMoreThanTheGpu) {
  EXPECT_EQ(memory_share(mib(1000), 10, 10, 300), mib(1000));
  EXPECT_EQ(memory_share(mib(1000), 5, 10, 300), mib(1000));
  EXPECT_EQ(memory_share(mib(1000), 20, 10), mib(1000));
  EXPECT_EQ(threads_share(10, 10, 300), Percent::whole(100));
  EXPECT_EQ(threads_share(200, 200, 300), Percent::whole(100));
  EXPECT_EQ(threads_share(20, 10), Percent::whole(100));
}

TEST(SharesTest, FractionsOfAPercentBeginWith101Slots) {
  EXPECT_EQ(threads_share(1, 100, 150), Percent::whole(1));
  EXPECT_EQ(threads_share(1, 101, 150), Percent{148});
  EXPECT_EQ(threads_share(3, 101), Percent{297});
}

TEST(SharesTest, ThreadsAreNvidiasDivision) {
  EXPECT_EQ(threads_share(1, 3), Percent::whole(33));
  EXPECT_EQ(threads_share(1, 7), Percent::whole(14));
  EXPECT_EQ(threads_share(1, 48), Percent::whole(2));
  EXPECT_EQ(threads_share(2, 3), Percent::whole(66));
  EXPECT_EQ(threads_share(10, 10), Percent::whole(100));
}

// Measured on an H200 of 132 SMs.
TEST(SharesTest, SmsAreWhatTheDriverGives) {
  struct Row {
    std::uint32_t hundredths;
    std::uint32_t sms;
  };
  for (const Row& row :
       {Row{10, 8}, Row{100, 8}, Row{700, 8}, Row{800, 10}, Row{1000, 12}, Row{1250, 16}, Row{2000, 26}, Row{2500, 32},
        Row{3330, 42}, Row{5000, 66}, Row{6660, 86}, Row{7500, 98}, Row{9000, 118}, Row{9900, 130}, Row{10000, 132}})
    EXPECT_EQ(sms_at({row.hundredths}, 132), row.sms) << row.hundredths;
  EXPECT_EQ(sms_at(Percent::whole(25), 0), 0u);
  EXPECT_EQ(sms_at({}, 132), 0u);
}

TEST(SharesTest, CountsMeasuredWrongAreRoundedUpByDefault) {
  struct Row {
    std::uint32_t slots;
    std::uint32_t up;
    std::uint32_t down;
    std::uint32_t off;
  };
  for (const Row& row :
       {Row{2, 66, 66, 66}, Row{3, 62, 34, 42}, Row{4, 32, 32, 32}, Row{5, 30, 16, 26}, Row{6, 30, 16, 20},
        Row{7, 30, 16, 18}, Row{8, 14, 14, 14}, Row{10, 12, 12, 12}, Row{48, 8, 8, 8}}) {
    EXPECT_EQ(share_of_h200(1, row.slots, SmRounding::kUp).sms, row.up) << row.slots;
    EXPECT_EQ(share_of_h200(1, row.slots, SmRounding::kDown).sms, row.down) << row.slots;
    EXPECT_EQ(share_of_h200(1, row.slots, SmRounding::kOff).sms, row.off) << row.slots;
  }
}

TEST(SharesTest, RoundedPercentageIsTheNearestThatIsTrusted) {
  const auto trusted = trusted_sm_counts(kHopper, 132);
  EXPECT_EQ(round_to_trusted(Percent::whole(20), 132, trusted, SmRounding::kUp), Percent::whole(23));
  EXPECT_EQ(round_to_trusted(Percent::whole(20), 132, trusted, SmRounding::kDown), Percent::whole(13));
  EXPECT_EQ(round_to_trusted(Percent::whole(66), 132, trusted, SmRounding::kUp), Percent::whole(90));
  EXPECT_EQ(round_to_trusted(Percent::whole(10), 132, trusted, SmRounding::kUp), Percent::whole(10));
  EXPECT_EQ(round_to_trusted(Percent::whole(20), 132, std::vector<SmSpan>{{200, 300}}, SmRounding::kUp),
            Percent::whole(20));
  EXPECT_EQ(round_to_trusted(Percent::whole(20), 132, std::vector<SmSpan>{{100, 132}}, SmRounding::kDown),
            Percent::whole(76));
}

TEST(SharesTest, EveryRoundedShareOfEveryDivisionIsTrusted) {
  const auto trusted = trusted_sm_counts(kHopper, 132);
  for (std::uint32_t slots = 1; slots <= 128; ++slots)
    for (std::uint32_t held = 1; held <= slots; ++held)
      for (const SmRounding rounding : {SmRounding::kUp, SmRounding::kDown}) {
        const ShareLimits share = share_of_h200(held, slots, rounding);
        ASSERT_TRUE(is_trusted(share.sms, trusted)) << held << " of " << slots << " gives " << share.sms;
        if (rounding == SmRounding::kUp) {
          ASSERT_GE(share.threads, threads_share(held, slots));
        }
      }
}

TEST(SharesTest, NothingIsKnownAgainstOtherGpus) {
  EXPECT_TRUE(trusted_sm_counts({8, 0}, 108).empty());
  EXPECT_TRUE(trusted_sm_counts({9, 0}, 114).empty());
  PlannedDevice a100;
  a100.slots = 5;
  a100.memory = mib(40960);
  a100.sm_count = 108;
  a100.compute_capability = {8, 0};
  EXPECT_EQ(share_of(a100, 1).threads, Percent::whole(20));
}

TEST(SharesTest, SumsNeverExceedTheGpu) {
  for (std::uint32_t slots = 1; slots <= 200; ++slots)
    for (const std::uint64_t total : {15360ull, 40960ull, 143771ull, 7ull}) {
      if (total < slots) continue;
      EXPECT_LE(memory_share(mib(total), 1, slots).value * slots, mib(total).value);
      if (slots <= 100) {
        EXPECT_LE(threads_share(1, slots).hundredths * slots, 10000u);
      }
    }
}

}  // namespace shares_test
}  // namespace tranche::plan
