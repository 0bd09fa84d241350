#include "mps/pool/ending_file.h"

#include <gtest/gtest.h>

namespace tranche::mps {
namespace {

TEST(EndingFile, IsReadAsItWasWritten) {
  const EndingProcesses processes{
      {{7, 100}, StoppedFor::kEnd}, {{8, 18446744073709551615u}, StoppedFor::kContinue}, {{9, 1}, StoppedFor::kClosed}};
  EXPECT_EQ(render_ending(processes), "7 100 end\n8 18446744073709551615 continue\n9 1 closed\n");
  EXPECT_EQ(parse_ending(render_ending(processes)), processes);
}

TEST(EndingFile, LinesThatAreNotUnderstoodArePassedOver) {
  const EndingProcesses one{{{7, 100}, StoppedFor::kEnd}};
  EXPECT_EQ(parse_ending("7 100 end\n0 1 end\n-1 1 end\n2147483648 1 end\n7 end\n7 1 kill\n7 x end\n7 1 end more\n\n"),
            one);
  EXPECT_EQ(parse_ending(""), EndingProcesses{});
}

}  // namespace
}  // namespace tranche::mps
