#include "standins/cuda/cublas/wrong_counts.h"

#include <gtest/gtest.h>

namespace tranche::sim {
namespace {

TEST(WrongCounts, AreAsMeasured) {
  for (const std::uint32_t sms : {8u, 16u, 22u, 30u, 34u, 42u, 62u, 66u, 70u, 118u, 132u}) {
    EXPECT_FALSE(computes_wrong(sms, "")) << sms;
  }
  for (const std::uint32_t sms : {18u, 20u, 26u, 28u, 36u, 44u, 60u, 68u, 72u, 116u}) {
    EXPECT_TRUE(computes_wrong(sms, "")) << sms;
  }
}

TEST(WrongCounts, MayBeConfigured) {
  EXPECT_TRUE(computes_wrong(9, "9,20-30"));
  EXPECT_TRUE(computes_wrong(30, "9,20-30"));
  EXPECT_FALSE(computes_wrong(18, "9,20-30"));
  EXPECT_FALSE(computes_wrong(18, "none"));
}

}  // namespace
}  // namespace tranche::sim
