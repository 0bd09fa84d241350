#include "mps/pool/namespaces.h"

#include <gmock/gmock.h>

#include "plan/shares.h"

namespace tranche::mps {
namespace namespaces_test {

using ::testing::HasSubstr;

const std::string kGpu = "GPU-3f2a1b4c-0000-1111-2222-333344445555";
const std::string kGrant = "0011223344556677";

TEST(NamespaceOfAGrant, HoldsItsMemoryAndItsPercentage) {
  const auto made = namespace_for(kGrant, {{kGpu, mib(7188), Percent::whole(25)}}, kGpu, 132);
  ASSERT_TRUE(made) << to_string(made.error());
  EXPECT_EQ(*made, (v3::WantedNamespace{kGrant, {mib(7188), Percent::whole(25)}}));
}

TEST(NamespaceOfAGrant, WhatIsNotLimitedIsMoreThanAnyGpuHas) {
  const auto made = namespace_for(kGrant, {{kGpu, Bytes{}, Percent{}}}, kGpu, 132);
  ASSERT_TRUE(made);
  EXPECT_EQ(made->limits, (v3::Limits{kNoMemoryLimit, Percent::whole(100)})) << "so that it can be read back";
}

TEST(NamespaceOfAGrant, IsNoneOfAnotherDevicesOrOfAnotherName) {
  const GrantLimits limits{{"GPU-1", mib(1), Percent{}}};
  EXPECT_THAT(namespace_for(kGrant, limits, kGpu, 132).error().what, HasSubstr("none of its devices"));
  EXPECT_FALSE(namespace_for("default", {{kGpu, mib(1), Percent{}}}, kGpu, 132)) << "the server's own";
}

TEST(NamespaceOfAGrant, WholePercentAreAsManySms) {
  EXPECT_EQ(whole_percent(Percent{2273}, 132), Percent::whole(23)) << "30 SMs; 22 % would be 28";
  EXPECT_EQ(whole_percent(Percent{1250}, 132), Percent::whole(13)) << "16 SMs";
  EXPECT_EQ(whole_percent(Percent::whole(25), 132), Percent::whole(25));
  EXPECT_EQ(whole_percent(Percent{70}, 132), Percent::whole(1));
  EXPECT_EQ(whole_percent(Percent{3333}, 0), Percent::whole(33)) << "nothing is known of the GPU";
}

// Promise: mps/daemon/tier-v3: Rounding to whole percent never changes the number of SMs.
TEST(NamespaceOfAGrant, NoPercentageBecomesAnotherNumberOfSms) {
  for (const std::uint32_t sm_count : {8u, 20u, 46u, 80u, 108u, 114u, 132u, 148u, 188u, 200u}) {
    for (std::uint32_t hundredths = 10; hundredths <= 10000; hundredths += 7) {
      const auto whole = whole_percent(Percent{hundredths}, sm_count);
      EXPECT_EQ(whole.hundredths % 100, 0u);
      ASSERT_EQ(plan::sms_at(whole, sm_count), plan::sms_at(Percent{hundredths}, sm_count))
          << hundredths << " of " << sm_count;
    }
  }
}

}  // namespace namespaces_test
}  // namespace tranche::mps
