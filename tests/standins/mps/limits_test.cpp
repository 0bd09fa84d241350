#include "standins/mps/limits.h"

#include <gmock/gmock.h>

namespace tranche::sim {
namespace {

constexpr std::uint64_t kMib = 1ull << 20;
constexpr std::uint64_t kGib = 1ull << 30;
const std::string kFirst = "GPU-11111111-0000-0000-0000-000000000000";
const std::string kSecond = "GPU-22222222-0000-0000-0000-000000000000";

// facts, section 1: "SMs a client gets on 132"; reference 3.2 for the other chips.
TEST(MpsLimits, SmsFollowTheMeasuredTable) {
  const std::pair<double, std::uint32_t> on_132[] = {
      {1, 8},   {7, 8},   {8, 10},    {9, 10},  {10, 12},   {11, 14}, {12.5, 16}, {13, 16},  {14, 18},
      {20, 26}, {25, 32}, {33.3, 42}, {50, 66}, {66.6, 86}, {75, 98}, {90, 118},  {99, 130}, {100, 132}};
  for (const auto& [percent, sms] : on_132) EXPECT_EQ(sms_for(percent, 132), sms) << percent << " %";
  EXPECT_EQ(sms_for(10, 188), 18u);
  EXPECT_EQ(sms_for(25, 188), 46u);
  EXPECT_EQ(sms_for(75, 188), 140u);
  EXPECT_EQ(sms_for(50, 108), 54u);
  EXPECT_EQ(sms_for(1, 4), 4u);
}

TEST(MpsLimits, TheContextItselfCosts72To514Mib) {
  EXPECT_EQ(4096 * kMib - context_bytes(12), 4219729520u);  // free at 10 % under 4096M, as measured
  EXPECT_EQ((4096 * kMib - context_bytes(132)) / kMib, 3582u);
}

TEST(MpsLimits, PercentagesAboveZeroUpToAHundredAreTaken) {
  EXPECT_EQ(parse_percentage("12.5"), 12.5);
  EXPECT_EQ(parse_percentage("100"), 100.0);
  for (const char* bad : {"0", "101", "1000", "zz", "", "-5", "5%", " 5", "nan", "inf", "1e1"}) {
    EXPECT_FALSE(parse_percentage(bad)) << bad;
  }
  EXPECT_EQ(percentage_text(33.3333), "33.3");
  EXPECT_EQ(percentage_text(100), "100.0");
}

// transcripts/lives.txt
TEST(MpsLimits, TheDaemonReadsMemoryLooselyAndPrintsItInWholeUnits) {
  const std::pair<const char*, const char*> read_back[] = {
      {"1630", "1G"}, {"4097M", "4G"}, {"500M", "500M"},        {"512K", "512M"},
      {"5MB", "5M"},  {"1.5G", "1M"},  {"700m", "700M"},        {"2g", "2G"},
      {"3GB", "3G"},  {"2T", "2M"},    {"-1G", "17179869183G"}, {"4294967296", "4194304G"}};
  for (const auto& [written, shown] : read_back) {
    EXPECT_EQ(memory_text(parse_daemon_memory(written)), shown) << written;
  }
  EXPECT_EQ(parse_daemon_memory("zz"), 0u);
  EXPECT_EQ(parse_daemon_memory("0"), 0u);
  EXPECT_EQ(parse_daemon_memory(""), 0u);
}

TEST(MpsLimits, AnOrdinalBeatsAUuidWhicheverCameLater) {
  MemoryLimits limits;
  limits.set("0", 500 * kMib);
  limits.set(kFirst, 4 * kGib);
  EXPECT_EQ(limits.for_gpu(0, kFirst), 500 * kMib);
  limits.set("0", 5 * kGib);
  EXPECT_EQ(limits.for_gpu(0, kFirst), 5 * kGib);
  limits.set("0", 0);
  EXPECT_EQ(limits.for_gpu(0, kFirst), 4 * kGib);
  EXPECT_EQ(limits.for_gpu(1, kSecond), std::nullopt);
}

// facts, section 3: "which deaths hurt".
TEST(MpsLimits, DeathHurtsByKernelLength) {
  constexpr std::int64_t ms = 1'000'000;
  const auto hurts = [](std::int64_t kernel_ns, std::int64_t left_ns) {
    const WorkInFlight plain{.kernel_ns = kernel_ns, .left_ns = left_ns};
    EXPECT_FALSE(termination_hurts_peers(plain));
    return death_hurts_peers(plain);
  };
  EXPECT_FALSE(hurts(ms / 5, 2000 * ms / 5));
  EXPECT_FALSE(hurts(ms, 2000 * ms));
  EXPECT_FALSE(hurts(5 * ms, 5 * ms));
  EXPECT_TRUE(hurts(5 * ms, 40 * 5 * ms));
  EXPECT_TRUE(hurts(20 * ms, 20 * ms));
  EXPECT_TRUE(hurts(200 * ms, ms));
  EXPECT_FALSE(hurts(200 * ms, 0));
}

// docs/internals/evidence/stopping.md: products of 8192x8192 bf16 matrices, language-model decoding, small training.
TEST(MpsLimits, TensorWorkInFlightHurtsAtDeathAndAtTerminationAlike) {
  constexpr std::int64_t ms = 1'000'000;
  for (const auto hurts : {death_hurts_peers, termination_hurts_peers}) {
    EXPECT_TRUE(hurts({.tensor = true, .kernel_ns = 6 * ms, .left_ns = 4 * 6 * ms}));
    EXPECT_TRUE(hurts({.tensor = true, .kernel_ns = 6 * ms, .left_ns = 1}));
    EXPECT_TRUE(hurts({.tensor = true, .kernel_ns = 200 * ms, .left_ns = ms}));
    EXPECT_FALSE(hurts({.tensor = true, .kernel_ns = 6 * ms, .left_ns = 0})) << "the queue has run out";
    EXPECT_FALSE(hurts({.tensor = true, .kernel_ns = 3 * ms, .left_ns = 40 * 3 * ms})) << "short kernels";
  }
}

}  // namespace
}  // namespace tranche::sim
