#include "cli/size.h"

#include <gmock/gmock.h>

namespace tranche::cli {
namespace {

TEST(Size, UnitsAreBinary) {
  EXPECT_EQ(parse_size("4096"), Bytes{4096});
  EXPECT_EQ(parse_size("512M"), mib(512));
  EXPECT_EQ(parse_size("512MiB"), mib(512));
  EXPECT_EQ(parse_size("3G"), gib(3));
  EXPECT_EQ(parse_size("3Gi"), gib(3));
}

TEST(Size, RefusesWhatIsNoSize) {
  for (const char* bad : {"", "G", "-1G", "1.5G", "1GB", "1 G", "1Gx", "99999999999999999999", "18446744073709551615G"})
    EXPECT_EQ(parse_size(bad), std::nullopt) << bad;
}

}  // namespace
}  // namespace tranche::cli
