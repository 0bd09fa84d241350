#include "mps/pool/client_ending.h"

#include <gtest/gtest.h>

namespace tranche::mps {
namespace {

TEST(EndingFile, IsReadAsItWasWritten) {
  const EndingProcesses processes{{7, 100}, {8, 18446744073709551615u}};
  EXPECT_EQ(render_ending(processes), "7 100\n8 18446744073709551615\n");
  EXPECT_EQ(parse_ending(render_ending(processes)), processes);
}

TEST(EndingFile, LinesThatAreNotUnderstoodArePassedOver) {
  const EndingProcesses one{{7, 100}};
  EXPECT_EQ(parse_ending("7 100\n0 1\n-1 1\n2147483648 1\n7\n7 x\n7 1 more\n\n"), one);
  EXPECT_EQ(parse_ending(""), EndingProcesses{});
}

}  // namespace
}  // namespace tranche::mps
