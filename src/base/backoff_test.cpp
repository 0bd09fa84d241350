#include "base/time.h"

#include <gtest/gtest.h>

namespace tranche {
namespace {

using std::chrono::milliseconds;

TEST(Backoff, DoublesUpToTheMostAndJittersIntoTheUpperHalf) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    Backoff backoff(milliseconds(100), milliseconds(1000), seed);
    for (const int whole : {100, 200, 400, 800, 1000, 1000, 1000}) {
      const Duration wait = backoff.next();
      EXPECT_GE(wait, milliseconds(whole) / 2) << "seed " << seed;
      EXPECT_LE(wait, milliseconds(whole)) << "seed " << seed;
    }
  }
}

TEST(Backoff, StartsAnewAfterReset) {
  Backoff backoff(milliseconds(100), milliseconds(10000), 1);
  for (int i = 0; i < 5; ++i) (void)backoff.next();
  backoff.reset();
  EXPECT_LE(backoff.next(), milliseconds(100));
}

TEST(Backoff, DiffersBetweenSeedsAndRepeatsForOne) {
  const auto first = [](std::uint64_t seed) { return Backoff(milliseconds(100), milliseconds(1000), seed).next(); };
  EXPECT_EQ(first(3), first(3));
  EXPECT_NE(first(3), first(4));
}

TEST(Backoff, WithoutJitterDoublesUpToTheMost) {
  std::vector<Duration> waits;
  for (const int failures : {0, 1, 2, 3, 4, 1000000})
    waits.push_back(doubled(milliseconds(100), milliseconds(500), failures));
  EXPECT_EQ(waits, (std::vector<Duration>{milliseconds(100), milliseconds(100), milliseconds(200), milliseconds(400),
                                          milliseconds(500), milliseconds(500)}));
}

TEST(Backoff, NeverWaitsForNothing) {
  Backoff backoff(Duration(1), Duration(1), 0);
  EXPECT_GT(backoff.next(), Duration::zero());
}

}  // namespace
}  // namespace tranche
