#include "plan/client_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tranche::plan {
namespace client_limits_test {

using ::testing::HasSubstr;

const std::string kA = "GPU-3f2a1b4c-0000-1111-2222-333344445555";
const std::string kB = "GPU-9d8e7f60-aaaa-bbbb-cccc-ddddeeeeffff";

TEST(ClientLimits, AreWrittenByUuidInWholeMebibytes) {
  const std::vector<DeviceMemory> limits{{kA, mib(14377)}, {kB, Bytes{mib(43131).value + 7}}};
  EXPECT_EQ(render_pinned_limit(limits), kA + "=14377M," + kB + "=43131M");
  EXPECT_EQ(render_pinned_limit({}), "");
}

TEST(ClientLimits, ReadBackWhatWasWritten) {
  const std::vector<DeviceMemory> limits{{kA, mib(1)}, {kB, gib(141)}};
  const auto read = parse_pinned_limit(render_pinned_limit(limits));
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(*read, limits);
}

TEST(ClientLimits, TakeTheUnitsOfTheManual) {
  for (const auto& [text, bytes] : std::vector<std::pair<std::string, Bytes>>{
           {"2G", gib(2)}, {"512MB", mib(512)}, {"3GB", gib(3)}, {"4096M", mib(4096)}}) {
    const auto read = parse_pinned_limit(kA + "=" + text);
    ASSERT_TRUE(read) << text;
    EXPECT_EQ(read->at(0).second, bytes) << text;
  }
}

TEST(ClientLimits, AnEmptyValueKeepsTheDaemonsLimit) {
  const auto read = parse_pinned_limit("");
  ASSERT_TRUE(read);
  EXPECT_TRUE(read->empty());
}

// Measured on H200, driver 580: with each of these the daemon's limit vanished.
// Promise: mps/limits/limits: Spellings that lift the memory limit are refused.
TEST(ClientLimits, RefuseEverySpellingThatLiftsALimit) {
  for (const char* text : {"zz", "0=zz", "0=", "=", " ", "0=0", "1=1G", "9=1G", "GPU-bad=1G", "0=1G,0=zz", "8192M"}) {
    EXPECT_FALSE(parse_pinned_limit(text)) << text;
  }
}

TEST(ClientLimits, RefuseWhatIsNotKnownToLimit) {
  for (const std::string& text : {std::string("0=1G"),
                                  kA,
                                  kA + "=",
                                  kA + "=0M",
                                  kA + "=-1G",
                                  kA + "=1.5G",
                                  kA + "= 1G",
                                  kA + "=1G ",
                                  kA + "=1g",
                                  kA + "=1T",
                                  kA + "=G",
                                  kA + "=1630",
                                  kA + "=1G,",
                                  "," + kA + "=1G",
                                  kA + "=1G," + kA + "=2G",
                                  kA + "=1G=2G",
                                  kA + "=18446744073709551615G",
                                  kA.substr(0, 12) + "=1G",
                                  "MIG" + kA.substr(3) + "=1G",
                                  " " + kA + "=1G"}) {
    const auto read = parse_pinned_limit(text);
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().kind, Kind::kInvalid);
    EXPECT_EQ(read.error().where, kPinnedLimitVariable);
  }
}

TEST(ClientLimits, SayWhatIsWrongAndWhatToWrite) {
  EXPECT_THAT(parse_pinned_limit(kA + "=1630").error().what, HasSubstr("\"1630\" has no unit; write M or G"));
  EXPECT_THAT(parse_pinned_limit("0=1G").error().what, HasSubstr("\"0\" is not the full UUID"));
  EXPECT_THAT(parse_pinned_limit(kA + "=1G," + kA + "=1G").error().what, HasSubstr("is named twice"));
}

}  // namespace client_limits_test
}  // namespace tranche::plan
