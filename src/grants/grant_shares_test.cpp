#include "grants/grant_shares.h"

#include <gmock/gmock.h>

namespace tranche::grants {
namespace shares_test {

const Shares kShares{{{"00ff11ee22dd33cc", "GPU-1"}, {"gpu-1", "nvidia.com/gpu", mib(14377)}},
                     {{"00ff11ee22dd33cc", "GPU-2"}, {"gpu-2", "nvidia.com/gpu.shared", mib(1), Percent{1250}}},
                     {{"00ff11ee22dd33cd", "GPU-2"}, {"gpu-2", "nvidia.com/gpu", {}, Percent{0}, "00ff11ee22dd33cc"}}};

TEST(KeptShares, AreReadAsTheyWereWritten) {
  EXPECT_EQ(parse_shares(render_shares(kShares)), kShares);
  EXPECT_EQ(render_shares({}), "");
}

TEST(KeptShares, LinesThatAreNotUnderstoodAreLeftOut) {
  EXPECT_EQ(parse_shares(""), Shares{});
  EXPECT_EQ(parse_shares("garbage\na b c d x 1 -\na b c d -1 1 -\na b c d 5 6\na b c d 5 6 -\n").size(), 1u);
  EXPECT_EQ(parse_shares("a b c d 5 10001 -\na b c d 5 x -\na b c d 5 1 - -\n"), Shares{});
}

}  // namespace shares_test
}  // namespace tranche::grants
