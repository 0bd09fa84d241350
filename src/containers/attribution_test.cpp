#include "containers/attribution.h"

#include <gmock/gmock.h>

namespace tranche::containers {
namespace attribution_test {

TEST(Attribution, AGrantHasSixteenHexadecimalDigits) {
  EXPECT_TRUE(is_grant("00ff11ee22dd33cc"));
  for (const char* name : {"", "00FF11EE22DD33CC", "00ff11ee22dd33c", "00ff11ee22dd33cc0", "00ff11ee22dd33c/", ".."})
    EXPECT_FALSE(is_grant(name)) << name;
}

TEST(Attribution, ADirectoryIsFoundInAMountTable) {
  const char* own =
      "22 1 254:0 / / rw - ext4 /dev/root rw\n"
      "30 22 0:21 / /run rw - tmpfs tmpfs rw\n"
      "31 22 0:22 /nvidia/mps /mps\\040root ro - tmpfs tmpfs rw\n";
  EXPECT_EQ(mounted_at(own, "/run/nvidia/mps"), "0:21 /nvidia/mps");
  EXPECT_EQ(mounted_at(own, "/mps root"), "0:22 /nvidia/mps");
  EXPECT_EQ(mounted_at(own, "/mps root/a"), "0:22 /nvidia/mps/a");
  EXPECT_EQ(mounted_at(own, "/runner"), "254:0 /runner");
  EXPECT_EQ(mounted_at("", "/run"), std::nullopt);
  EXPECT_EQ(mounted_at("31 22 0:23 /sub /run rw - x y z\n32 31 0:24 / /run rw - x y z\n", "/run/mps"), "0:24 /mps")
      << "of two at one point the later is on top";
}

}  // namespace attribution_test
}  // namespace tranche::containers
