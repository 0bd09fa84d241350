#include "guard/attribution.h"

#include <gmock/gmock.h>

namespace tranche::guard {
namespace {

constexpr const char* kAt = "/run/tranche/mps";

TEST(Attribution, TheDoorInTheMountTableNamesTheGrant) {
  const auto door = door_of_mountinfo(
      "22 1 254:0 / / rw,relatime - ext4 /dev/root rw\n"
      "40 22 0:21 /nvidia/mps/pools/gpu-3f2a1b4c/doors/00ff11ee22dd33cc /run/tranche/mps ro,nosuid - tmpfs tmpfs rw\n",
      kAt);
  EXPECT_EQ(door, (Door{"gpu-3f2a1b4c", "00ff11ee22dd33cc"}));
}

TEST(Attribution, AnythingElseNamesNone) {
  for (const char* text : {"", "\n\n", "40 22 0:21 /run/tranche/mps", "1 2 3 4 5 6",
                           "40 22 0:21 /pools/p/doors/00ff11ee22dd33cc /elsewhere ro - tmpfs t rw",
                           "40 22 0:21 /pools/p/doors/../00ff11ee22dd33cc /run/tranche/mps ro - tmpfs t rw",
                           "40 22 0:21 /pools/p/doors/00FF11EE22DD33CC /run/tranche/mps ro - tmpfs t rw",
                           "40 22 0:21 /pools//doors/00ff11ee22dd33cc /run/tranche/mps ro - tmpfs t rw",
                           "40 22 0:21 /doors/00ff11ee22dd33cc /run/tranche/mps ro - tmpfs t rw"})
    EXPECT_EQ(door_of_mountinfo(text, kAt), std::nullopt) << text;
}

TEST(Attribution, TheMountOnTopCounts) {
  const auto door = door_of_mountinfo(
      "40 22 0:21 /x/pools/gpu-1/doors/0000000000000001 /run/tranche/mps ro - tmpfs t rw\n"
      "41 40 0:30 / /run/tranche/mps rw - tmpfs t rw\n",
      kAt);
  EXPECT_EQ(door, std::nullopt);
}

}  // namespace
}  // namespace tranche::guard
