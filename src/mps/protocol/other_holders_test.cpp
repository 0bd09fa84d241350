#include "mps/protocol/requests.h"

#include <gmock/gmock.h>

namespace tranche::mps {
namespace other_holders_test {

TEST(OtherHolders, AreReadAsTheyAreWritten) {
  const std::set<std::string> devices{"GPU-1f2e", "MIG-00aa"};
  EXPECT_EQ(parse_other_holders(render_other_holders(devices)), devices);
  EXPECT_EQ(render_other_holders({}), "");
}

TEST(OtherHolders, WhatIsNoDeviceIsPassedOver) {
  EXPECT_THAT(parse_other_holders("GPU-a\n\n../x\nGPU-b c\ngpu-1\nMIG-c"), testing::ElementsAre("GPU-a", "MIG-c"));
}

}  // namespace other_holders_test
}  // namespace tranche::mps
