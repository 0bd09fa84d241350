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
  EXPECT_EQ(parse_taken(render_taken(kTaken)), kTaken);
}

TEST(KeptShares, LinesThatAreNotUnderstoodAreLeftOut) {
  EXPECT_EQ(parse_kept(""), Kept{});
  EXPECT_EQ(parse_kept("garbage\na b c d 0\na b c d x\na b c d -1\na b c d 5 6\na b c d 5\n").shares.size(), 1u);
  EXPECT_EQ(parse_kept("a b c d 5 10001 -\na b c d 5 x -\na b c d 5 1 - -\n"), Kept{});
  const TakenShares one{{{"b", "GPU-b"}, {"MPS → exclusive", true}}};
  EXPECT_EQ(parse_taken("a\na GPU-a\na GPU-a maybe x\n GPU-a told x\n\nb GPU-b told MPS → exclusive\n"), one);
  EXPECT_EQ(parse_kept("taken a\ntaken a GPU-a maybe x\ntaken b GPU-b told MPS → exclusive\n").taken, one);
}

TEST(KeptShares, OfAnEarlierReleaseAreRead) {
  const auto kept = parse_kept("00ff11ee22dd33cc GPU-1 gpu-1 nvidia.com/gpu 1048576\n");
  ASSERT_EQ(kept.shares.size(), 1u);
  EXPECT_EQ(kept.shares.begin()->second, (Share{"gpu-1", "nvidia.com/gpu", mib(1)}))
      << "threads and tenant are not known";
}

}  // namespace shares_test
}  // namespace tranche::grants
