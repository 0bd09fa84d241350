#include "guard/worth_journal.h"

#include <gmock/gmock.h>

namespace tranche::guard {
namespace worth_journal_test {

TEST(WorthJournal, ReadsBackWhatItWrites) {
  const Worths worths{{{"00ff11ee22dd33cc", "GPU-1"}, {"gpu-1", "nvidia.com/gpu", mib(14377)}},
                      {{"00ff11ee22dd33cc", "GPU-2"}, {"gpu-2", "nvidia.com/gpu.shared", mib(1), Percent{1250}}},
                      {{"00ff11ee22dd33cd", "GPU-2"}, {"gpu-2", "nvidia.com/gpu", {}, Percent{0}, "00ff11ee22dd33cc"}}};
  EXPECT_EQ(parse_worths(render_worths(worths)), worths);
  EXPECT_EQ(render_worths({}), "");
}

TEST(WorthJournal, PassesOverWhatItDoesNotUnderstand) {
  EXPECT_TRUE(parse_worths("").empty());
  EXPECT_EQ(parse_worths("garbage\na b c d 0\na b c d x\na b c d -1\na b c d 5 6\na b c d 5\n").size(), 1u);
  EXPECT_TRUE(parse_worths("a b c d 5 10001 -\na b c d 5 x -\na b c d 5 1 - -\n").empty());
}

TEST(WorthJournal, ReadsWhatAnEarlierReleaseWrote) {
  const auto worths = parse_worths("00ff11ee22dd33cc GPU-1 gpu-1 nvidia.com/gpu 1048576\n");
  ASSERT_EQ(worths.size(), 1u);
  EXPECT_EQ(worths.begin()->second, (Worth{"gpu-1", "nvidia.com/gpu", mib(1)})) << "threads and tenant are not known";
}

}  // namespace worth_journal_test
}  // namespace tranche::guard
