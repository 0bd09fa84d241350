#include "node/observe/tenant_metrics.h"

#include <gmock/gmock.h>

namespace tranche::node {
namespace held_times_test {

using ::testing::SizeIs;

MonoTime at(int seconds) {
  return MonoTime{std::chrono::seconds(seconds)};
}

plan::Plan plan_of(std::uint32_t slots) {
  plan::PlannedDevice device;
  device.uuid = "GPU-0";
  device.slots = slots;
  plan::PlannedResource resource;
  resource.devices = {device};
  plan::Plan plan;
  plan.resources = {resource};
  return plan;
}

TenantKey key(const char* pod) {
  return {"team", pod, "main", "GPU-0", "nvidia.com/gpu"};
}

TenantRows::value_type row(const char* pod, std::uint32_t slots) {
  return {key(pod), {.slots = slots, .memory_limit = {}, .thread_limit = {}}};
}

// Promise: metrics: What a tenant held is counted by the share that it had at each moment, and never falls.
TEST(HeldTimes, AreByTheShareOfEachMoment) {
  HeldTimes times;
  keep_held_times(times, {row("a", 2)}, plan_of(10), at(100));
  EXPECT_EQ(times.at(key("a")).until(at(110)).seconds, 10);
  EXPECT_DOUBLE_EQ(times.at(key("a")).until(at(110)).share_seconds, 2);
  keep_held_times(times, {row("a", 2)}, plan_of(4), at(110));  // another configuration
  EXPECT_DOUBLE_EQ(times.at(key("a")).until(at(110)).share_seconds, 2);
  EXPECT_DOUBLE_EQ(times.at(key("a")).until(at(120)).share_seconds, 7);
  keep_held_times(times, {row("a", 2)}, {}, at(120));  // the device is no longer planned
  EXPECT_DOUBLE_EQ(times.at(key("a")).until(at(130)).share_seconds, 12);
}

TEST(HeldTimes, EndWithTheTenant) {
  HeldTimes times;
  keep_held_times(times, {row("a", 1), row("b", 1)}, plan_of(10), at(0));
  keep_held_times(times, {row("b", 1)}, plan_of(10), at(10));
  EXPECT_THAT(times, SizeIs(1));
  keep_held_times(times, {row("a", 1), row("b", 1)}, plan_of(10), at(20));
  EXPECT_EQ(times.at(key("a")).until(at(25)).seconds, 5) << "another pod of that name";
  EXPECT_EQ(times.at(key("b")).until(at(25)).seconds, 25);
}

}  // namespace held_times_test
}  // namespace tranche::node
