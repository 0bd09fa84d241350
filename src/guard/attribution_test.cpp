#include "guard/attribution.h"

#include <gmock/gmock.h>

namespace tranche::guard {
namespace attribution_test {

constexpr const char* kAt = "/run/tranche/mps";
const EndpointsAt kEndpoints{"0:21", "/nvidia/mps"};

TEST(Attribution, TheEndpointInTheMountTableNamesTheGrant) {
  const auto endpoint = endpoint_of_mountinfo(
      "22 1 254:0 / / rw,relatime - ext4 /dev/root rw\n"
      "40 22 0:21 /nvidia/mps/pools/gpu-3f2a1b4c/endpoints/00ff11ee22dd33cc /run/tranche/mps ro,nosuid - tmpfs tmpfs "
      "rw\n",
      kAt, kEndpoints);
  EXPECT_EQ(endpoint, (Endpoint{"gpu-3f2a1b4c", "00ff11ee22dd33cc"}));
}

// Its name may belong to the next tenant now, with a new directory.
TEST(Attribution, AnEndpointThatWasRemovedNamesNone) {
  EXPECT_EQ(endpoint_of_mountinfo(
                "40 22 0:21 /nvidia/mps/pools/p/endpoints/00ff11ee22dd33cc//deleted /run/tranche/mps ro - tmpfs t rw",
                kAt, kEndpoints),
            std::nullopt);
}

TEST(Attribution, AnythingElseNamesNone) {
  for (const char* text :
       {"", "\n\n", "40 22 0:21 /run/tranche/mps", "1 2 3 4 5 6",
        "40 22 0:21 /nvidia/mps/pools/p/endpoints/00ff11ee22dd33cc /elsewhere ro - tmpfs t rw",
        "40 22 0:21 /nvidia/mps/pools/p/endpoints/../00ff11ee22dd33cc /run/tranche/mps ro - tmpfs t rw",
        "40 22 0:21 /nvidia/mps/pools/p/endpoints/00FF11EE22DD33CC /run/tranche/mps ro - tmpfs t rw",
        "40 22 0:21 /nvidia/mps/pools//endpoints/00ff11ee22dd33cc /run/tranche/mps ro - tmpfs t rw",
        "40 22 0:21 /nvidia/mps/endpoints/00ff11ee22dd33cc /run/tranche/mps ro - tmpfs t rw"})
    EXPECT_EQ(endpoint_of_mountinfo(text, kAt, kEndpoints), std::nullopt) << text;
}

TEST(Attribution, AnEndpointThatATenantMadeItselfNamesNone) {
  for (const char* text :
       {// a file system of the tenant, with the same names in it
        "40 22 0:77 /nvidia/mps/pools/p/endpoints/00ff11ee22dd33cc /run/tranche/mps rw - tmpfs t rw",
        // The same file system, another directory: a volume of the pod.
        "40 22 0:21 /pods/7/volumes/x/nvidia/mps/pools/p/endpoints/00ff11ee22dd33cc /run/tranche/mps rw - tmpfs t rw",
        "40 22 0:21 /nvidia/mps2/pools/p/endpoints/00ff11ee22dd33cc /run/tranche/mps rw - tmpfs t rw",
        "40 22 0:21 /nvidia/mps/x/pools/p/endpoints/00ff11ee22dd33cc /run/tranche/mps rw - tmpfs t rw"})
    EXPECT_EQ(endpoint_of_mountinfo(text, kAt, kEndpoints), std::nullopt) << text;
}

TEST(Attribution, TheMountOnTopCounts) {
  const auto endpoint = endpoint_of_mountinfo(
      "40 22 0:21 /nvidia/mps/pools/gpu-1/endpoints/0000000000000001 /run/tranche/mps ro - tmpfs t rw\n"
      "41 40 0:30 / /run/tranche/mps rw - tmpfs t rw\n",
      kAt, kEndpoints);
  EXPECT_EQ(endpoint, std::nullopt);
}

TEST(Attribution, WhereEndpointsLieIsReadFromOurOwnMountTable) {
  const char* own =
      "22 1 254:0 / / rw - ext4 /dev/root rw\n"
      "30 22 0:21 / /run rw - tmpfs tmpfs rw\n"
      "31 22 0:22 /nvidia/mps /mps\\040root ro - tmpfs tmpfs rw\n";
  EXPECT_EQ(where_endpoints_are(own, "/run/nvidia/mps"), (EndpointsAt{"0:21", "/nvidia/mps"}));
  EXPECT_EQ(where_endpoints_are(own, "/mps root"), (EndpointsAt{"0:22", "/nvidia/mps"}));
  EXPECT_EQ(where_endpoints_are(own, "/mps root/a"), (EndpointsAt{"0:22", "/nvidia/mps/a"}));
  EXPECT_EQ(where_endpoints_are(own, "/runner"), (EndpointsAt{"254:0", "/runner"}));
  EXPECT_EQ(where_endpoints_are("", "/run"), std::nullopt);
  EXPECT_EQ(where_endpoints_are("31 22 0:23 /sub /run rw - x y z\n32 31 0:24 / /run rw - x y z\n", "/run/mps"),
            (EndpointsAt{"0:24", "/mps"}))
      << "of two at one point the later is on top";
}

}  // namespace attribution_test
}  // namespace tranche::guard
