// The rate limit of log lines about tenants' actions.
#include "mps/endpoints/endpoints.h"

#include <gmock/gmock.h>

namespace tranche::mps {
namespace {

using ::testing::Optional;
using namespace std::chrono_literals;

constexpr MonoTime kT0{100s};

// Promise: mps/relay: A tenant's events have one log line a minute for each kind, which counts the others.
TEST(LogPace, GivesOneLineAMinuteForEachGrantAndKindAndCountsTheOthers) {
  LogPace pace;
  EXPECT_THAT(pace.due("a", "refused", kT0), Optional(0u));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(pace.due("a", "refused", kT0 + i * 10s), std::nullopt);
  EXPECT_EQ(pace.due("a", "refused", kT0 + 1min - 1ns), std::nullopt);
  EXPECT_THAT(pace.due("a", "stalled", kT0), Optional(0u)) << "an event of a different kind";
  EXPECT_THAT(pace.due("b", "refused", kT0), Optional(0u)) << "a different grant";
  EXPECT_THAT(pace.due("a", "refused", kT0 + 1min), Optional(6u));
  EXPECT_EQ(pace.due("a", "refused", kT0 + 2min - 1ns), std::nullopt) << "a minute from the last line on";
  EXPECT_THAT(pace.due("a", "refused", kT0 + 2min), Optional(1u)) << "each is counted in one line";
  pace.forget("a");
  EXPECT_THAT(pace.due("a", "refused", kT0 + 2min), Optional(0u)) << "the grant's next tenant";
  EXPECT_EQ(pace.due("b", "refused", kT0 + 1s), std::nullopt);
}

}  // namespace
}  // namespace tranche::mps
