#include "mps/tenant_limits.h"

#include <gmock/gmock.h>

namespace tranche::mps {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr const char* kFirst = "GPU-aaaaaaaa-0000-4000-8000-00000000000a";
constexpr const char* kSecond = "GPU-bbbbbbbb-0000-4000-8000-00000000000b";
const TenantWorth kWorth{Percent::whole(30), {{kFirst, gib(8)}, {kSecond, gib(4)}}};

std::vector<TenantRemark> on_threads(const std::string& text) {
  return remarks_on({.threads = text, .memory = {}}, kWorth);
}
std::vector<TenantRemark> on_memory(const std::string& text) {
  return remarks_on({.threads = {}, .memory = text}, kWorth);
}

TEST(TenantLimits, WhatIsWithinTheGrantNeedsNoWord) {
  EXPECT_THAT(remarks_on({}, kWorth), IsEmpty());
  for (const char* threads : {"", "30", "12.5", "0.1", "29.999"})
    EXPECT_THAT(on_threads(threads), IsEmpty()) << threads;
  for (const char* memory : {"", "0=2G", "0=8G,1=4096M", "0=2G,"}) EXPECT_THAT(on_memory(memory), IsEmpty()) << memory;
  EXPECT_THAT(on_memory(std::string(kSecond) + "=4G"), IsEmpty());
}

TEST(TenantLimits, AnUnreadablePercentageIsSaidWithWhatToWriteInstead) {
  for (const char* threads : {"abc", "0", "-5", "101", "30%", "1e1", " 30", "3.x", "."}) {
    const auto remarks = on_threads(threads);
    ASSERT_THAT(remarks, SizeIs(1)) << threads;
    EXPECT_FALSE(remarks[0].understood);
    EXPECT_THAT(remarks[0].message, HasSubstr("the container has the 30 % of its grant"));
    EXPECT_THAT(remarks[0].message, HasSubstr("write a number such as 12.5"));
  }
}

// Those that were measured to lift every memory limit, and those that the driver does not know.
TEST(TenantLimits, AnUnreadableMemoryLimitIsSaidWithWhatToWriteInstead) {
  for (const char* memory : {"zz", "0=zz", "0=", "=", "0=0", " ", "2=1G", "9=1G", "GPU-bad=1G", "0=1G,0=zz", "8192M",
                             "0=-1G", "0=1.5G", "0=$(LIMIT)"}) {
    const auto remarks = on_memory(memory);
    ASSERT_THAT(remarks, SizeIs(1)) << memory;
    EXPECT_FALSE(remarks[0].understood);
    EXPECT_THAT(remarks[0].message, HasSubstr(memory));
    EXPECT_THAT(remarks[0].message, HasSubstr(std::string("such as ") + kFirst + "=4096M"));
  }
}

TEST(TenantLimits, WhatIsMoreThanTheGrantHasNoEffect) {
  ASSERT_THAT(on_threads("70"), SizeIs(1));
  EXPECT_TRUE(on_threads("70")[0].understood);
  EXPECT_THAT(on_threads("70")[0].message, HasSubstr("more than the 30 %"));
  ASSERT_THAT(on_memory("0=2G,1=5G"), SizeIs(1));
  EXPECT_TRUE(on_memory("0=2G,1=5G")[0].understood);
  EXPECT_THAT(on_memory("0=2G,1=5G")[0].message, HasSubstr("4096 MiB of " + std::string(kSecond)));
  EXPECT_THAT(remarks_on({"100", "0=800G"}, {Percent{}, {{kFirst, Bytes{}}}}), IsEmpty()) << "nothing is limited";
}

TEST(TenantLimits, EachVariableIsRemarkedOnByItself) {
  EXPECT_THAT(remarks_on({"x", "x"}, kWorth), SizeIs(2));
}

TEST(TenantLimits, ALongValueIsCut) {
  EXPECT_LT(on_memory(std::string(100000, 'x')).at(0).message.size(), 600u);
}

}  // namespace
}  // namespace tranche::mps
