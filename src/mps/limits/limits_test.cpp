#include "mps/limits/limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mps/control/questions.h"

namespace tranche::mps {
namespace limits_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kA = "GPU-3f2a1b4c-0000-1111-2222-333344445555";
const std::string kB = "GPU-9d8e7f60-aaaa-bbbb-cccc-ddddeeeeffff";

plan::PlannedPool pool() {
  plan::PlannedPool p;
  p.id = "gpu-3f2a1b4c";
  p.devices = {kA, kB};
  p.limits = {{kA, {Bytes{mib(14377).value + 5}, Percent::whole(10), 12}}, {kB, {mib(500), Percent::whole(25), 32}}};
  return p;
}

TEST(Limits, OfAPoolAreWholeMebibytesAndItsLargestPercentage) {
  const DaemonLimits limits = limits_of(pool());
  EXPECT_THAT(limits.memory, ElementsAre(std::pair(kA, mib(14377)), std::pair(kB, mib(500))));
  EXPECT_EQ(limits.threads, Percent::whole(25));
}

TEST(Limits, OfADeviceWithoutOneCanBeReadBack) {
  plan::PlannedPool p = pool();
  p.limits[0].client = {};
  const DaemonLimits limits = limits_of(p);
  EXPECT_THAT(limits.memory, ElementsAre(std::pair(kA, gib(1024)), std::pair(kB, mib(500))));
  EXPECT_EQ(limits.threads, Percent::whole(100));
}

TEST(Limits, AreCommandsByUuidWithUnit) {
  EXPECT_EQ(DaemonQuestion({limits_of(pool()), true}, {}).input(),
            "set_default_device_pinned_mem_limit " + kA + " 14377M\nset_default_device_pinned_mem_limit " + kB +
                " 500M\nset_default_active_thread_percentage 25\nget_default_active_thread_percentage\n"
                "get_default_device_pinned_mem_limit " +
                kA + "\nget_default_device_pinned_mem_limit " + kB + "\nget_server_list\n");
  EXPECT_THAT(DaemonQuestion({{{}, Percent{1250}}, true}, {}).input(),
              testing::StartsWith("set_default_active_thread_percentage 12.5\n"));
}

// Promise: mps/limits/limits: Limits are compared as the getter rounds them.
TEST(Limits, AgreeAsTheGetterRoundsThem) {
  const DaemonLimits expected = limits_of(pool());
  EXPECT_EQ(disagreement(expected, {{{kA, gib(14)}, {kB, mib(500)}}, Percent::whole(25)}), "");
  EXPECT_EQ(disagreement({{}, Percent{3333}}, {{}, Percent{3330}}), "");
  EXPECT_EQ(disagreement({{{kA, mib(1500)}}, Percent::whole(100)}, {{{kA, gib(1)}}, Percent::whole(100)}), "");
  EXPECT_EQ(as_printed(Percent{3333}) + as_printed(Percent::whole(100)), "33.3100.0");
}

TEST(Limits, DisagreeWithASentence) {
  const DaemonLimits expected = limits_of(pool());
  const Percent same = Percent::whole(25);
  EXPECT_THAT(disagreement(expected, {{{kA, gib(13)}, {kB, mib(500)}}, same}),
              HasSubstr(kA + " was set to 14377M and reads back as \"13G\" (expected 14G)"));
  EXPECT_THAT(disagreement(expected, {{{kA, gib(14)}, {kB, {}}}, same}), HasSubstr("(expected 500M)"));
  EXPECT_THAT(disagreement(expected, {{{kA, gib(14)}}, same}), HasSubstr("was not read back"));
  EXPECT_THAT(disagreement(expected, {{{kA, gib(14)}, {kB, mib(500)}}, Percent::whole(100)}),
              HasSubstr("percentage was set to 25 and is 100"));
}

const std::vector<std::string> kPool{kA, kB};

// The driver counts the devices that a client sees: docs/internals/evidence/shares.md.
TEST(LimitsOfAGrant, AreThoseOfTheDevicesAsTheContainerCountsThem) {
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
TEST(LimitsOfAGrant, ThePercentageIsTheSmallestThatIsLimited) {
  const GrantLimits both{{kB, mib(2), Percent{700}}, {kA, mib(1024), Percent{2500}}};
  EXPECT_EQ(limits_for(both, kPool)->threads, Percent{700});
  EXPECT_EQ(limits_for(GrantLimits{{kB, mib(2), {}}, {kA, mib(1024), Percent{2500}}}, kPool)->threads, Percent{2500});
  EXPECT_EQ(limits_for(GrantLimits{{kA, mib(1024), {}}}, kPool)->threads, Percent::whole(100));
}

// Promise: mps/limits/limits: The value for "not limited" can be read back.
TEST(LimitsOfAGrant, NotLimitedIsMoreThanAnyGpuHasSoThatItCanBeReadBack) {
  const auto limits = limits_for(GrantLimits{{kA, {}, {}}}, std::vector{kA});
  EXPECT_EQ(*limits, (DaemonLimits{{{kA, gib(1024)}}, Percent::whole(100)}));
  EXPECT_EQ(disagreement(*limits, {{{kA, gib(1024)}}, Percent::whole(100)}), "");
}

TEST(LimitsOfAGrant, OfAnotherPoolsDevicesAreRefused) {
  const auto limits = limits_for(GrantLimits{{kB, mib(7188), Percent{500}}}, std::vector{kA});
  ASSERT_FALSE(limits);
  EXPECT_THAT(limits.error().what, HasSubstr("none of its devices"));
}

}  // namespace limits_test
}  // namespace tranche::mps
