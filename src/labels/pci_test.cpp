#include "labels/pci.h"

#include <gtest/gtest.h>

namespace tranche::labels {
namespace pci_test {

constexpr const char* kIds =
    "# a comment\n10dd  Another\n\t2335  Not this one\n10de  NVIDIA Corporation\n\t1eb8  TU104GL [Tesla T4]\n"
    "\t2335  GH100 [H200 SXM 141GB]\n\t\t10de 18be  A board\n10df  Emulex Corporation\n\t20b0  Not this one either\n";

TEST(PciIds, NameADeviceOfNvidias) {
  EXPECT_EQ(device_name(kIds, 0x2335), "GH100 [H200 SXM 141GB]");
  EXPECT_EQ(device_name(kIds, 0x1eb8), "TU104GL [Tesla T4]");
  EXPECT_EQ(device_name(kIds, 0x18be), "") << "a board is no device";
  EXPECT_EQ(device_name(kIds, 0x20b0), "") << "of another vendor";
  EXPECT_EQ(device_name("", 0x2335), "");
  EXPECT_EQ(device_name("10de\n\t2335", 0x2335), "");
}

TEST(PciRegions, TheLargestWideOneMapsTheMemory) {
  constexpr const char* kRegions =
      "0x00000000fa000000 0x00000000faffffff 0x0000000000040200\n"
      "0x0000010000000000 0x000001ffffffffff 0x000000000014220c\n"
      "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
      "0x00000200f0000000 0x00000200f1ffffff 0x000000000014220c\n"
      "0x0 0x0 0x0\n0x0 0x0 0x0\n"
      "0x0000030000000000 0x00000fffffffffff 0x000000000014220c\n";
  EXPECT_EQ(largest_region(kRegions), gib(1024)) << "the first six are the GPU's own";
  EXPECT_EQ(largest_region(""), Bytes{});
  EXPECT_EQ(largest_region("0x1 0x2\nnonsense\n0x5 0x4 0x140204\n0x0 0xffffffffffffffff 0x140200\n"), Bytes{});
}

TEST(PciNumbers, AreHexadecimal) {
  EXPECT_EQ(hex_number("0x10de\n"), 0x10de);
  EXPECT_EQ(hex_number("0x030200"), 0x030200u);
  for (const char* text : {"", "10de", "0x", "0xfffffffff", "0x1g"}) EXPECT_FALSE(hex_number(text)) << text;
}

}  // namespace pci_test
}  // namespace tranche::labels
