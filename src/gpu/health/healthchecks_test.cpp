#include "gpu/health/healthchecks.h"

#include <gmock/gmock.h>

namespace tranche::gpu {
namespace healthchecks_test {

using testing::HasSubstr;
using Set = std::set<std::uint64_t>;

struct ListCase {
  std::string_view text;
  bool all;
  Set xids;
  std::size_t warnings;
};

// The cases that NVIDIA's plugin tests, and those that its rule implies.
TEST(HealthChecks, AListIsReadTokenByTokenAndWhatIsNoNumberIsNamedAndSkipped) {
  const ListCase cases[] = {
      {"", false, {}, 0},
      {",", false, {}, 0},
      {"not-an-int", false, {}, 1},
      {"68", false, {68}, 0},
      {"-68", false, {}, 1},
      {"68  ", false, {68}, 0},
      {"68,", false, {68}, 0},
      {",68", false, {68}, 0},
      {"68,67", false, {67, 68}, 0},
      {"68,not-an-int,67", false, {67, 68}, 1},
      {" \t68 ,\n67", false, {67, 68}, 0},
      {"all", true, {}, 0},
      {"ALL", true, {}, 0},
      {"Xids", true, {}, 0},
      {"13, all ,oops", true, {13}, 1},
      {"xids,13", true, {13}, 0},
      {"0", true, {}, 0},
      {"0,79", true, {79}, 0},
      {"allxids", false, {}, 1},
      {"13 31", false, {}, 1},
      {"0x0d", false, {}, 1},
      {"13.0", false, {}, 1},
      {"18446744073709551615", false, {18446744073709551615u}, 0},
      {"18446744073709551616", false, {}, 1},
      {"\xff\xfe", false, {}, 1},
  };
  for (const ListCase& c : cases) {
    std::vector<Problem> problems;
    const XidChoice choice = parse_xid_choice(c.text, kDisableVariable, problems);
    EXPECT_EQ(choice.all, c.all) << c.text;
    EXPECT_EQ(choice.xids, c.xids) << c.text;
    EXPECT_EQ(problems.size(), c.warnings) << c.text;
    EXPECT_FALSE(has_error(problems)) << c.text;
  }
}

TEST(HealthChecks, AWarningSaysWhichVariableWhichTokenAndWhatToWrite) {
  std::vector<Problem> problems;
  parse_health_checks("13", "48,Oops,x", problems);
  ASSERT_EQ(problems.size(), 2u);
  EXPECT_THAT(to_string(problems[0]), HasSubstr("$DP_ENABLE_HEALTHCHECKS"));
  EXPECT_THAT(to_string(problems[0]), HasSubstr("\"oops\""));
  EXPECT_THAT(to_string(problems[0]), HasSubstr("48,79"));
}

struct RuleCase {
  std::string_view disable;
  std::string_view enable;
  Set unhealthy;  // of those queried
  Set not_unhealthy;
  bool off;
};

// Promise: health: XIDs are disabled and enabled by number.
// Promise: health: With all XIDs disabled but one, that one is watched.
TEST(HealthChecks, EnablingBeatsDisablingNumberByNumberAndTheRestFollowsAll) {
  const RuleCase cases[] = {
      {"", "", {48, 79, 95, 1000}, {13, 31, 43, 45, 68, 109}, false},
      {"79", "", {48, 95}, {79, 13, 109}, false},
      {"", "13", {13, 48}, {31, 109}, false},
      {"13,79", "13", {13, 48}, {79, 31}, false},
      {"all", "", {}, {13, 48, 79, 1000}, true},
      {"xids", "", {}, {13, 48, 79}, true},
      {"0", "", {}, {13, 48, 79}, true},
      {"all", "79", {79}, {13, 48, 1000}, false},  // NVIDIA's documentation promises this, its plugin does not do it
      {"all", "all", {13, 48, 79, 1000}, {}, false},
      {"all,13", "all", {13, 48}, {}, false},
      {"79", "xids", {13, 79, 94, 1000}, {}, false},
      {"", "0", {13, 14, 94}, {}, false},
      {"79", "79", {79}, {13}, false},
      {"all", "oops", {}, {13, 79}, true},
  };
  for (const RuleCase& c : cases) {
    SCOPED_TRACE(std::string(c.disable) + " / " + std::string(c.enable));
    std::vector<Problem> problems;
    const HealthChecks checks = parse_health_checks(c.disable, c.enable, problems);
    const auto counts = [&](std::uint64_t xid) {
      const XidClass cls = class_of(checks, xid);
      return cls == XidClass::kDrain || cls == XidClass::kReset;
    };
    for (const auto xid : c.unhealthy) EXPECT_TRUE(counts(xid)) << xid;
    for (const auto xid : c.not_unhealthy) EXPECT_FALSE(counts(xid)) << xid;
    EXPECT_EQ(checks.off(), c.off);
  }
}

TEST(HealthChecks, AnEnabledXidKeepsAClassThatNeedsAResetAndDrainsOtherwise) {
  std::vector<Problem> problems;
  const HealthChecks checks = parse_health_checks("", "31,95,14", problems);
  EXPECT_EQ(class_of(checks, 31), XidClass::kDrain);
  EXPECT_EQ(class_of(checks, 14), XidClass::kDrain);
  EXPECT_EQ(class_of(checks, 95), XidClass::kReset);
  EXPECT_EQ(class_of(checks, 13), XidClass::kApplication);
  EXPECT_THAT(problems, testing::IsEmpty());
}

TEST(HealthChecks, IsWrittenAsItIsRead) {
  EXPECT_EQ(to_string(XidChoice{}), "");
  EXPECT_EQ(to_string(XidChoice{true, {31, 13}}), "all,13,31");
  std::vector<Problem> problems;
  EXPECT_EQ(parse_xid_choice("all,13,31", "", problems), (XidChoice{true, {13, 31}}));
}

}  // namespace healthchecks_test
}  // namespace tranche::gpu
