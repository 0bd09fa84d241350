#include "os/clock/clock.h"

#include <gtest/gtest.h>

#include <thread>

namespace tranche::os {
namespace {

TEST(Clock, MonotonicTimeNeverGoesBack) {
  auto last = mono_now();
  for (int i = 0; i < 1000; ++i) {
    const auto next = mono_now();
    ASSERT_LE(last, next);
    last = next;
  }
}

TEST(Clock, WallTimeIsWrittenInUtcWithMilliseconds) {
  using namespace std::chrono_literals;
  EXPECT_EQ(utc_text(WallTime{}), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(utc_text(WallTime{1'700'000'000s + 5ms}), "2023-11-14T22:13:20.005Z");
}

TEST(Clock, TimesBeforeTheEpochRoundDown) {
  EXPECT_EQ(utc_text(WallTime{std::chrono::milliseconds(-1)}), "1969-12-31T23:59:59.999Z");
}

TEST(Clock, ABudgetIsOfTheThreadsOwnWork) {
  const CpuBudget small(std::chrono::milliseconds(5)), unbounded(Duration::max());
  std::thread([] {
    const CpuBudget other(std::chrono::milliseconds(20));
    while (!other.spent()) {
    }
  }).join();
  EXPECT_FALSE(small.spent());
  const auto late = mono_now() + std::chrono::seconds(60);
  while (!small.spent() && mono_now() < late) {
  }
  EXPECT_TRUE(small.spent());
  EXPECT_GE(small.used(), std::chrono::milliseconds(5));
  EXPECT_FALSE(unbounded.spent());
}

}  // namespace
}  // namespace tranche::os
