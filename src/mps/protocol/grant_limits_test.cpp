#include "mps/protocol/grant_limits.h"

#include <gmock/gmock.h>

namespace tranche::mps {
namespace grant_limits_test {

using ::testing::HasSubstr;

const std::string kA = "GPU-3f2a1b4c-0000-1111-2222-333344445555";
const std::string kB = "GPU-9d8e7f60-aaaa-bbbb-cccc-ddddeeeeffff";

TEST(GrantLimits, AreReadAsTheyWereWritten) {
  const GrantLimits limits{{kA, mib(7188), Percent{500}}, {kB, {}, {}}};
  EXPECT_EQ(render_limits(limits), kA + " 7188 500\n" + kB + " 0 0\n");
  EXPECT_EQ(*parse_limits(render_limits(limits)), limits);
}

TEST(GrantLimits, WhatIsNotExactlyThatIsRefusedByName) {
  const std::vector<std::pair<std::string, std::string>> rows{
      {"", "line's end"},
      {"\n", "\"\""},
      {kA + " 7188 500", "line's end"},
      {kA + " 7188\n", kA + " 7188"},
      {kA + "  7188 500\n", "hundredths"},
      {kA + " 7188M 500\n", "7188M"},
      {kA + " -1 500\n", "-1"},
      {kA + " 7188 10001\n", "10000"},
      {kA + " 99999999999 500\n", "99999999999"},
      {"0 7188 500\n", "\"0\""},
      {"GPU-a;quit 7188 500\n", "GPU-a;quit"},
      {kA + " 1 1\n" + kA + " 1 1\n", "twice"},
  };
  for (const auto& [text, words] : rows) {
    const auto parsed = parse_limits(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_THAT(to_string(parsed.error()), HasSubstr(words)) << text;
  }
  GrantLimits many;
  for (std::size_t i = 0; i <= kMostGrantDevices; ++i) many.push_back({"GPU-" + std::to_string(i), mib(1), {}});
  EXPECT_FALSE(check_limits(many));
  many.pop_back();
  EXPECT_TRUE(check_limits(many));
  EXPECT_FALSE(check_limits({}));
}

}  // namespace grant_limits_test
}  // namespace tranche::mps
