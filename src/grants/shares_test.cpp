#include "grants/shares.h"

#include <gmock/gmock.h>

namespace tranche::grants {
namespace shares_test {

const Shares kShares{{{"00ff11ee22dd33cc", "GPU-1"}, {"gpu-1", "nvidia.com/gpu", mib(14377)}},
                     {{"00ff11ee22dd33cc", "GPU-2"}, {"gpu-2", "nvidia.com/gpu.shared", mib(1), Percent{1250}}},
                     {{"00ff11ee22dd33cd", "GPU-2"}, {"gpu-2", "nvidia.com/gpu", {}, Percent{0}, "00ff11ee22dd33cc"}}};
const TakenShares kTaken{{{"0123456789abcdef", "GPU-a"}, {"time-slicing → MPS", true}},
                         {{"0123456789abcdef", "GPU-b"}, {"MPS pool gpu-a → MPS pool set-1", false}},
                         {{"fedcba9876543210", "GPU-a"}, {"", false}}};

TEST(KeptShares, AreReadAsTheyWereWritten) {
  const Kept kept{kShares, kTaken};
  EXPECT_EQ(parse_kept(render_kept(kept)), kept);
  EXPECT_EQ(render_kept({}), "");
}

TEST(KeptShares, LinesThatAreNotUnderstoodAreLeftOut) {
  EXPECT_EQ(parse_kept(""), Kept{});
  EXPECT_EQ(parse_kept("garbage\na b c d x 1 -\na b c d -1 1 -\na b c d 5 6\na b c d 5 6 -\n").shares.size(), 1u);
  EXPECT_EQ(parse_kept("a b c d 5 10001 -\na b c d 5 x -\na b c d 5 1 - -\n"), Kept{});
  const TakenShares one{{{"b", "GPU-b"}, {"MPS → exclusive", true}}};
  EXPECT_EQ(
      parse_kept(
          "taken a\ntaken a GPU-a\ntaken a GPU-a maybe x\ntaken  GPU-a told x\n\ntaken b GPU-b told MPS → exclusive\n")
          .taken,
      one);
}

}  // namespace shares_test
}  // namespace tranche::grants
