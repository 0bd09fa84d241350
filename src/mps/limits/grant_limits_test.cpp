#include "mps/limits/grant_limits.h"

#include <gmock/gmock.h>

namespace tranche::mps {
namespace grant_limits_test {

using ::testing::HasSubstr;

const std::string kA = "GPU-3f2a1b4c-0000-1111-2222-333344445555";
const std::string kB = "GPU-9d8e7f60-aaaa-bbbb-cccc-ddddeeeeffff";
const std::vector<std::string> kPool{kA, kB};

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

// The driver counts the devices that a client sees: docs/internals/evidence/shares.md.
TEST(GrantLimits, AreThoseOfTheDevicesAsTheContainerCountsThem) {
  const DaemonLimits expected{{{kA, mib(7188)}, {kB, mib(7188)}}, Percent{500}};
  EXPECT_EQ(*limits_for(GrantLimits{{kA, mib(7188), Percent{500}}}, kPool), expected);
  EXPECT_EQ(*limits_for(GrantLimits{{kB, mib(7188), Percent{500}}}, kPool), expected);
  const std::string c = "GPU-c";
  const GrantLimits two{{c, mib(3000), Percent{500}}, {kB, mib(9000), Percent{500}}};
  EXPECT_EQ(limits_for(two, std::vector{kA, kB, c})->memory,
            (decltype(DaemonLimits::memory){{kA, mib(9000)}, {kB, mib(3000)}, {c, mib(3000)}}));
  EXPECT_EQ(limits_for(two, std::vector{kB, c})->memory,
            (decltype(DaemonLimits::memory){{kB, mib(9000)}, {c, mib(3000)}}));
}

// Promise: mps/limits/limits: The percentage is the smallest of the grant's devices.
TEST(GrantLimits, ThePercentageIsTheSmallestThatIsLimited) {
  const GrantLimits both{{kB, mib(2), Percent{700}}, {kA, mib(1024), Percent{2500}}};
  EXPECT_EQ(limits_for(both, kPool)->threads, Percent{700});
  EXPECT_EQ(limits_for(GrantLimits{{kB, mib(2), {}}, {kA, mib(1024), Percent{2500}}}, kPool)->threads, Percent{2500});
  EXPECT_EQ(limits_for(GrantLimits{{kA, mib(1024), {}}}, kPool)->threads, Percent::whole(100));
}

// Promise: mps/limits/limits: The value for "not limited" can be read back.
TEST(GrantLimits, NotLimitedIsMoreThanAnyGpuHasSoThatItCanBeReadBack) {
  const auto limits = limits_for(GrantLimits{{kA, {}, {}}}, std::vector{kA});
  EXPECT_EQ(*limits, (DaemonLimits{{{kA, gib(1024)}}, Percent::whole(100)}));
  EXPECT_EQ(disagreement(*limits, {{{kA, "1024G"}}, "100.0"}), "");
  EXPECT_EQ(limits_for(DaemonLimits{{{kB, mib(500)}}, Percent{1000}}, kPool),
            (DaemonLimits{{{kA, gib(1024)}, {kB, mib(500)}}, Percent{1000}}));
}

TEST(GrantLimits, OfAnotherPoolsDevicesAreRefused) {
  const auto limits = limits_for(GrantLimits{{kB, mib(7188), Percent{500}}}, std::vector{kA});
  ASSERT_FALSE(limits);
  EXPECT_THAT(limits.error().what, HasSubstr("none of its devices"));
}

}  // namespace grant_limits_test
}  // namespace tranche::mps
