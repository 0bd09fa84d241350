#include "gpu/inventory/mig_minors.h"

#include <gmock/gmock.h>

namespace tranche::gpu {
namespace {

using ::testing::HasSubstr;

// The table as a driver writes it: every instance of 32 GPUs, whether or not it exists.
std::string whole_table() {
  std::string text = "config 1\nmonitor 2\n";
  for (int gpu = 0, minor = 3; gpu < 32; ++gpu) {
    for (int gi = 0; gi < 15; ++gi) {
      const std::string instance = "gpu" + std::to_string(gpu) + "/gi" + std::to_string(gi);
      text += instance + "/access " + std::to_string(minor++) + "\n";
      for (int ci = 0; ci < 8; ++ci)
        text += instance + "/ci" + std::to_string(ci) + "/access " + std::to_string(minor++) + "\n";
    }
  }
  return text;
}

TEST(MigMinors, NameTheNodeOfEveryInstanceOfTheDriversTable) {
  const MigMinors table = parse_mig_minors(whole_table());
  for (std::uint32_t gpu = 0; gpu < 32; ++gpu) {
    for (std::uint32_t gi = 0; gi < 15; ++gi) {
      ASSERT_EQ(table.of(gpu, gi), 3 + 135 * gpu + 9 * gi);
      for (std::uint32_t ci = 0; ci < 8; ++ci) ASSERT_EQ(table.of(gpu, gi, ci), 4 + 135 * gpu + 9 * gi + ci);
    }
  }
  EXPECT_EQ(table.of(31, 14, 7), 4322u);
  EXPECT_EQ(table.bad_lines, 0u);
  EXPECT_EQ(table.of(32, 0), std::nullopt);
  EXPECT_EQ(table.of(0, 0, 8), std::nullopt);
}

TEST(MigMinors, LinesThatDoNotFitAreQuotedAndTheOthersHold) {
  const MigMinors table = parse_mig_minors(
      "gpu0/gi1/access 12\n"
      "gpu0/gi1/access twelve\n"
      "gpu0/gi1/ci0/access\n"
      "\n"
      "gpu-1/gi1/access 4\n"
      "gpu0/gi1/ci0/access 13\r\n"
      "gpu0/gi1/ci0/other 13\n"
      "gpu0/gi2/access 1048576\n"
      "config 1 2\n");
  EXPECT_EQ(table.of(0, 1), 12u);
  EXPECT_EQ(table.of(0, 1, 0), 13u);
  EXPECT_EQ(table.of(0, 2), std::nullopt) << "no device node has such a number";
  EXPECT_EQ(table.bad_lines, 6u);
  EXPECT_THAT(table.not_understood, testing::ElementsAre(HasSubstr("line 2 is \"gpu0/gi1/access twelve\""),
                                                         HasSubstr("line 3 is"), HasSubstr("line 5 is")));
}

TEST(MigMinors, NoTextIsAnEmptyTable) {
  const MigMinors table = parse_mig_minors("");
  EXPECT_THAT(table.nodes, testing::IsEmpty());
  EXPECT_EQ(table.of(0, 0), std::nullopt);
  EXPECT_EQ(table.bad_lines, 0u);
}

}  // namespace
}  // namespace tranche::gpu
