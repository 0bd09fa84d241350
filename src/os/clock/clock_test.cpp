#include "os/clock/clock.h"

#include <gtest/gtest.h>

namespace tranche::host {
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

}  // namespace
}  // namespace tranche::host
