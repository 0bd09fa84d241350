#include "guard/judge.h"

#include <gmock/gmock.h>

namespace tranche::guard {
namespace stopped_file_test {

TEST(StoppedFile, ReadsBackWhatItWrites) {
  const Memory::StoppedProcesses stopped{{{7, 12345}, {{"00ff11ee22dd33cc", "GPU-1"}}},
                                         {{2147483647, 18446744073709551615u}, {{"00ff11ee22dd33cd", "MIG-2"}}}};
  EXPECT_EQ(parse_stopped(render_stopped(stopped)), stopped);
  EXPECT_EQ(render_stopped({}), "");
}

TEST(StoppedFile, PassesOverWhatItDoesNotUnderstand) {
  EXPECT_TRUE(parse_stopped("").empty());
  EXPECT_EQ(parse_stopped("garbage\n0 1 a b\n-1 1 a b\n2147483648 1 a b\n1 x a b\n1 1 a\n1 1 a b c\n1 1 a b\n").size(),
            1u);
}

}  // namespace stopped_file_test
}  // namespace tranche::guard
