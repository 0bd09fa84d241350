#include "mps/limits/limits.h"

#include <gmock/gmock.h>

#include "base/text.h"

namespace tranche::mps {
namespace tenant_limits_test {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr const char* kFirst = "GPU-aaaaaaaa-0000-4000-8000-00000000000a";
constexpr const char* kSecond = "GPU-bbbbbbbb-0000-4000-8000-00000000000b";
const DaemonLimits kGranted{{{kFirst, gib(8)}, {kSecond, gib(4)}}, Percent::whole(30)};

std::vector<TenantRemark> on_threads(const std::string& text) {
  return remarks_on(text, "", kGranted);
}
std::vector<TenantRemark> on_memory(const std::string& text) {
  return remarks_on("", text, kGranted);
}

TEST(TenantLimits, WhatIsWithinTheGrantNeedsNoWord) {
  EXPECT_THAT(remarks_on("", "", kGranted), IsEmpty());
  for (const char* threads : {"", "30", "12.5", "0.1", "29.999"})
    EXPECT_THAT(on_threads(threads), IsEmpty()) << threads;
  for (const char* memory : {"", "0=2G", "0=8G,1=4096M", "0=2G,"}) EXPECT_THAT(on_memory(memory), IsEmpty()) << memory;
  EXPECT_THAT(on_memory(std::string(kSecond) + "=4G"), IsEmpty());
}

// Promise: guard: A percentage that cannot be read is reported with the remedy.
TEST(TenantLimits, AnUnreadablePercentageIsSaidWithWhatToWriteInstead) {
  for (const char* threads : {"abc", "0", "-5", "101", "30%", "1e1", " 30", "3.x", "."}) {
    const auto remarks = on_threads(threads);
    ASSERT_THAT(remarks, SizeIs(1)) << threads;
    EXPECT_FALSE(remarks[0].understood);
    EXPECT_THAT(remarks[0].message, HasSubstr("the container has the 30 % of its grant"));
    EXPECT_THAT(remarks[0].message, HasSubstr("write a number such as 12.5"));
  }
}

// Values that were measured to lift every memory limit, and values that the driver does not know.
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

const std::vector<std::string> kOne{kFirst};

// Measured on H200 (docs/internals/mps-contract.md, "Client variables"), with one visible device.
// Promise: guard: Every value that was measured to lift the memory limit is named.
// Promise: mps/limits/limits: Spellings that lift the memory limit are refused.
TEST(LiftingLimits, EveryValueThatWasMeasuredToLiftTheLimitIsNamed) {
  for (const char* value : {"zz", "0=zz", "0=", "=", " ", "0=0", "1=1G", "9=1G", "GPU-bad=1G", "0=1G,0=zz"}) {
    const auto why = lifting(value, kOne);
    ASSERT_TRUE(why) << value;
    EXPECT_THAT(*why, HasSubstr("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=\"" + std::string(value) + "\""));
    EXPECT_THAT(*why, HasSubstr(std::string("such as ") + kFirst + "=4096M"));
  }
}

TEST(LiftingLimits, WhatKeepsOrLowersTheLimitIsNot) {
  for (const std::string& value :
       {std::string(), std::string("0=-1G"), std::string("0=2G"), std::string("0=2G,"), std::string("0=4096M"),
        std::string(kFirst) + "=2G", std::string(kFirst) + "=14377M"})
    EXPECT_FALSE(lifting(value, kOne)) << value;
}

// Not measured: how the driver treats these; a client is not refused on a guess.
TEST(LiftingLimits, WhatIsNotKnownToLiftIsNotNamed) {
  for (const char* value : {"0=1.5G", "0=2048", "0=2T", "0= 2G", " 0=2G", "0=+2G", "GPU-aaaaaaaa=2G",
                            "gpu-AAAAAAAA-0000-4000-8000-00000000000a=2G", "00=2G"})
    EXPECT_FALSE(lifting(value, kOne)) << value;
}

TEST(LiftingLimits, WhichDevicesAreSeenDecides) {
  const std::vector<std::string> two{kFirst, kSecond};
  EXPECT_FALSE(lifting("1=1G", two));
  EXPECT_FALSE(lifting(std::string(kSecond) + "=1G", two));
  EXPECT_FALSE(lifting("0=2G,1=3G", two));
  EXPECT_TRUE(lifting("2=1G", two));
  EXPECT_TRUE(lifting("0=2G,1=3G", kOne)) << "measured with one GPU to be seen";
  EXPECT_TRUE(lifting(std::string(kSecond) + "=1G", kOne));
  // The visible devices are not known: only faults that apply to any device count.
  EXPECT_FALSE(lifting("7=1G", {}));
  EXPECT_FALSE(lifting("GPU-bad=1G", {}));
  for (const char* value : {"zz", "0=zz", "0=", "=", " ", "0=0", "0=1G,0=zz"}) EXPECT_TRUE(lifting(value, {})) << value;
}

TEST(LiftingLimits, AValueIsCutAndPrintable) {
  const auto why = lifting("\x1b[31m\n\xff\xc3" + std::string(100000, 'x'), kOne);
  ASSERT_TRUE(why);
  EXPECT_LT(why->size(), 600u);
  EXPECT_EQ(visible_text(*why), *why);
}

// Promise: guard: A pod's own limit above its grant has no effect and is reported.
TEST(TenantLimits, WhatIsMoreThanTheGrantHasNoEffect) {
  ASSERT_THAT(on_threads("70"), SizeIs(1));
  EXPECT_TRUE(on_threads("70")[0].understood);
  EXPECT_THAT(on_threads("70")[0].message, HasSubstr("more than the 30 %"));
  ASSERT_THAT(on_memory("0=2G,1=5G"), SizeIs(1));
  EXPECT_TRUE(on_memory("0=2G,1=5G")[0].understood);
  EXPECT_THAT(on_memory("0=2G,1=5G")[0].message, HasSubstr("4096 MiB of " + std::string(kSecond)));
  EXPECT_THAT(remarks_on("100", "0=800G", {{{kFirst, Bytes{}}}}), IsEmpty()) << "nothing is limited";
}

TEST(TenantLimits, EachVariableIsRemarkedOnByItself) {
  EXPECT_THAT(remarks_on("x", "x", kGranted), SizeIs(2));
}

TEST(TenantLimits, ALongValueIsCut) {
  EXPECT_LT(on_memory(std::string(100000, 'x')).at(0).message.size(), 600u);
}

}  // namespace tenant_limits_test
}  // namespace tranche::mps
