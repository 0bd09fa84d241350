#include "plan/plan.h"

#include <gtest/gtest.h>

namespace tranche::plan {
namespace slot_id_test {

// Promise: discovery: A slot id reads back as written.
TEST(SlotIdTest, ReadsWhatItWrites) {
  for (const SlotId& id :
       {SlotId{"GPU-1", std::nullopt}, SlotId{"GPU-1", 0}, SlotId{"MIG-1", 4294967295}, SlotId{"a:b", 7}})
    EXPECT_EQ(parse_slot_id(render(id)), id) << render(id);
  EXPECT_EQ(render({"GPU-1", 3}), "GPU-1::3");
  EXPECT_EQ(render({"GPU-1", std::nullopt}), "GPU-1");
}

TEST(SlotIdTest, RefusesWhatNoSlotIsCalled) {
  for (const char* bad : {"", "::", "::1", "GPU-1::", "GPU-1::x", "GPU-1::-1", "GPU-1::1::2", "GPU-1::01",
                          "GPU-1::4294967296", "GPU-1:: 1"})
    EXPECT_EQ(parse_slot_id(bad), std::nullopt) << bad;
}

TEST(SlotIdTest, DeviceIsWhatStandsBeforeTheFirstSeparator) {
  EXPECT_EQ(device_of("GPU-1::3"), "GPU-1");
  EXPECT_EQ(device_of("GPU-1"), "GPU-1");
  EXPECT_EQ(device_of("a::b::c"), "a");
}

}  // namespace slot_id_test
}  // namespace tranche::plan
