#include "guard/tenant_shares.h"

#include <gmock/gmock.h>

#include <limits>

namespace tranche::guard {
namespace tenants_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

grants::Share share(const std::string& pool, std::uint64_t memory_mib, std::uint32_t threads) {
  return {pool, "nvidia.com/gpu", mib(memory_mib), Percent{threads}};
}

grants::Shares two_grants() {
  return {{{"g0", "GPU-0"}, share("set-1", 5000, 2500)}, {{"g1", "GPU-1"}, share("set-1", 3000, 1500)}};
}

// Promise: guard: Grants of one container and pool are one tenant with the sum of their limits.
TEST(Tenants, GrantsOfOneContainerAndPoolAreOneWithTheLimitsOfAll) {
  grants::Shares shares = two_grants();
  grants::join_grants(shares, {{"default/a/main", "g1"}, {"default/a/main", "g0"}});
  const auto tenants = tenants_of(shares);
  ASSERT_THAT(tenants, SizeIs(1));
  const Tenant& tenant = tenants.at("g0");
  EXPECT_THAT(tenant.grants, ElementsAre("g0", "g1"));
  EXPECT_TRUE(tenant.complete);
  EXPECT_EQ(tenant.devices.at("GPU-0").memory, mib(5000));
  EXPECT_EQ(tenant.devices.at("GPU-1").memory, mib(3000));
  EXPECT_EQ(tenant_of(tenants, "g1"), "g0");
  EXPECT_EQ(tenant_of(tenants, "g0"), "g0");
  EXPECT_EQ(tenant_of(tenants, "unknown"), "unknown");
}

TEST(Tenants, UntilKubeletReportsEachGrantStandsAlone) {
  const auto tenants = tenants_of(two_grants());
  EXPECT_THAT(tenants, SizeIs(2));
  EXPECT_FALSE(tenants.at("g0").complete);
}

TEST(Tenants, GrantsOfOtherContainersOrPoolsAreOthers) {
  grants::Shares shares = two_grants();
  grants::join_grants(shares, {{"default/a/main", "g0"}, {"default/b/main", "g1"}});
  EXPECT_THAT(tenants_of(shares), SizeIs(2));
  EXPECT_TRUE(tenants_of(shares).at("g1").complete);
  shares[{"g1", "GPU-1"}].pool = "set-2";
  grants::join_grants(shares, {{"default/a/main", "g0"}, {"default/a/main", "g1"}});
  EXPECT_THAT(tenants_of(shares), SizeIs(2));
}

TEST(Tenants, AGrantThatIsGivenAnewIsNobodysAndThoseItWasJoinedWithStandAlone) {
  for (const std::string again : {"g0", "g1"}) {
    grants::Shares shares = two_grants();
    grants::join_grants(shares, {{"default/a/main", "g0"}, {"default/a/main", "g1"}});
    grants::part_grant(shares, again);
    const auto tenants = tenants_of(shares);
    ASSERT_THAT(tenants, SizeIs(2)) << again;
    EXPECT_FALSE(tenants.at(again).complete);
    EXPECT_THAT(tenants.at(again).devices, SizeIs(1)) << "not the former tenant's";
    EXPECT_TRUE(tenants.at(again == "g0" ? "g1" : "g0").complete);
  }
}

TEST(Tenants, AGrantThatKubeletListsThereNoMoreIsParted) {
  grants::Shares shares = two_grants();
  grants::join_grants(shares, {{"default/a/main", "g0"}, {"default/a/main", "g1"}});
  grants::join_grants(shares, {{"default/b/main", "g0"}});
  EXPECT_THAT(tenants_of(shares), SizeIs(2));
}

TEST(Tenants, OneGrantOnSeveralDevicesIsOneTenant) {
  const grants::Shares shares{{{"g0", "GPU-0"}, share("set-1", 5000, 2500)},
                              {{"g0", "GPU-1"}, share("set-1", 3000, 2500)}};
  const auto tenants = tenants_of(shares);
  ASSERT_THAT(tenants, SizeIs(1));
  EXPECT_THAT(tenants.at("g0").grants, ElementsAre("g0"));
  EXPECT_THAT(tenants.at("g0").devices, SizeIs(2));
}

TEST(Tenants, TwoGrantsOnOneDeviceAddUp) {
  grants::Shares shares{{{"g0", "GPU-0"}, share("set-1", 5000, 6000)}, {{"g1", "GPU-0"}, share("set-1", 3000, 5000)}};
  grants::join_grants(shares, {{"default/a/main", "g0"}, {"default/a/main", "g1"}});
  EXPECT_EQ(tenants_of(shares).at("g0").devices.at("GPU-0").memory, mib(8000));
  EXPECT_EQ(tenants_of(shares).at("g0").devices.at("GPU-0").threads, Percent::whole(100));
  shares[{"g1", "GPU-0"}].memory = {};
  EXPECT_EQ(tenants_of(shares).at("g0").devices.at("GPU-0").memory, Bytes{}) << "not limited";
}

TEST(Tenants, ADeviceThatIsNotTheirsIsHeldToNothingOnceKubeletHasSaidWhatIs) {
  const std::map<std::string, std::vector<std::string>> devices{{"set-1", {"GPU-0", "GPU-1", "GPU-2"}}};
  const std::map<std::string, config::GuardMemory> policies{{"nvidia.com/gpu", config::GuardMemory::kObserve}};
  const auto limits = [&](const grants::Shares& shares) {
    return limits_of(tenants_of(shares), devices, policies, config::GuardMemory::kTerminateAll);
  };
  grants::Shares shares = two_grants();
  EXPECT_THAT(limits(shares), SizeIs(2)) << "the other may be theirs";
  grants::join_grants(shares, {{"default/a/main", "g0"}, {"default/a/main", "g1"}});
  const auto by_device = limits(shares);
  ASSERT_THAT(by_device, SizeIs(3));
  EXPECT_EQ(by_device.at({"g0", "GPU-0"}).memory, mib(5000));
  EXPECT_EQ(by_device.at({"g0", "GPU-1"}).memory, mib(3000)) << "by whichever endpoint";
  EXPECT_EQ(by_device.at({"g0", "GPU-2"}).memory, kNotTheirs);
  EXPECT_EQ(by_device.at({"g0", "GPU-2"}).policy, config::GuardMemory::kObserve);
}

TEST(Tenants, WhatIsNotLimitedIsNeverTooMuch) {
  grants::Shares shares{{{"g0", "GPU-0"}, {"set-1", "nvidia.com/other", {}, Percent{}}}};
  const auto limits = limits_of(tenants_of(shares), {}, {}, config::GuardMemory::kTerminateAll);
  EXPECT_EQ(limits.at({"g0", "GPU-0"}).memory.value, std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(limits.at({"g0", "GPU-0"}).policy, config::GuardMemory::kTerminateAll);
}

TEST(Tenants, TwoGrantsOnOneDeviceHaveTheSumOfTheirLimitsAtMostTheDevice) {
  struct Row {
    std::uint32_t first, second, sum;
  };
  for (const Row& row :
       {Row{2500, 1500, 4000}, Row{9000, 2000, 10000}, Row{0, 2500, 0}, Row{2500, 0, 0}, Row{1, 2500, 2501}}) {
    grants::Shares shares{{{"g0", "GPU-0"}, share("gpu-0", 5000, row.first)},
                          {{"g1", "GPU-0"}, share("gpu-0", 3000, row.second)}};
    grants::join_grants(shares, {{"default/a/main", "g0"}, {"default/a/main", "g1"}});
    const auto tenants = tenants_of(shares);
    ASSERT_THAT(tenants, SizeIs(1));
    EXPECT_EQ(tenants.at("g0").devices.at("GPU-0").memory, mib(8000));
    EXPECT_EQ(tenants.at("g0").devices.at("GPU-0").threads, Percent{row.sum}) << row.first << " and " << row.second;
  }
}

TEST(Tenants, OfNothingThereAreNone) {
  EXPECT_THAT(tenants_of({}), IsEmpty());
}

}  // namespace tenants_test
}  // namespace tranche::guard
