#include "grants/change/taken.h"

#include <gtest/gtest.h>

namespace tranche::change {
namespace {

TEST(Taken, IsReadAsItWasWritten) {
  const TakenShares shares{{{"0123456789abcdef", "GPU-a"}, {"time-slicing → MPS", true}},
                           {{"0123456789abcdef", "GPU-b"}, {"MPS pool gpu-a → MPS pool set-1", false}},
                           {{"fedcba9876543210", "GPU-a"}, {"", false}}};
  EXPECT_EQ(parse_taken(render_taken(shares)), shares);
}

TEST(Taken, LinesThatAreNotUnderstoodArePassedOver) {
  const auto shares = parse_taken("a\na GPU-a\na GPU-a maybe x\n GPU-a told x\n\nb GPU-b told MPS → exclusive\n");
  EXPECT_EQ(shares, (TakenShares{{{"b", "GPU-b"}, {"MPS → exclusive", true}}}));
}

}  // namespace
}  // namespace tranche::change
