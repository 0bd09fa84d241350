// Static SM partitions (-S), as the manual of release 590 describes them; no such daemon was at hand.
#include <gmock/gmock.h>

#include "standins/mps/mps_world.h"
#include "standins/mps/partitions.h"

namespace tranche::sim {
namespace static_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::string kNode = "driver: 590.44.01\ngpus: {profile: H200}\n";

std::string without_end(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

TEST(SmPartitions, TakeTheFirstRunOfFreeChunks) {
  PartitionedDevice device("GPU-1", 132, 9, 0);
  EXPECT_EQ(device.chunks(), 16u);
  const auto a = device.add(4), b = device.add(4), c = device.add(8);
  ASSERT_TRUE(a && b && c);
  EXPECT_EQ(device.sms(*a), 32u);
  EXPECT_FALSE(device.add(1)) << "16 chunks are taken";
  EXPECT_TRUE(device.remove(a->id));
  EXPECT_TRUE(device.remove(c->id));
  EXPECT_FALSE(device.add(9)) << "4 and 8 are free, and not side by side";
  EXPECT_EQ(device.add(8)->first, 8u);
  EXPECT_EQ(device.add(4)->id, a->id) << "the same run has the same id";
  EXPECT_NE(PartitionedDevice("GPU-1", 132, 9, 1).add(4)->id, a->id);
  EXPECT_FALSE(PartitionedDevice("GPU-1", 80, 7, 0).add(1)) << "before compute capability 8.0";
}

TEST(MpsStatic, IsKnownFromRelease590On) {
  MpsWorld old;
  old.start_daemon();
  EXPECT_EQ(old.ask("lspart"), "Unknown command \"lspart\"\n");
  MpsWorld world(kNode);
  world.start_daemon();
  EXPECT_EQ(world.ask("lspart"), "Static partitioning mode is not enabled\n");
}

TEST(MpsStatic, PartitionsAreAddedListedAndRemoved) {
  MpsWorld world(kNode);
  world.start_daemon({"-S"});
  const std::string uuid = world.uuid();
  const std::string id = without_end(world.ask("sm_partition add " + uuid.substr(0, 12) + " 4"));
  ASSERT_THAT(id, testing::StartsWith(uuid + "/"));
  const std::string part = id.substr(uuid.size() + 1);
  EXPECT_THAT(world.ask("lspart"), AllOf(HasSubstr(uuid.substr(0, 22)), HasSubstr(part), HasSubstr("12     4")));
  EXPECT_EQ(world.ask("sm_partition add " + uuid + " 13"), "Not enough free chunks on the device\n");
  EXPECT_EQ(world.ask("sm_partition rm " + uuid + " nnnnn"), "Invalid partition nnnnn\n");
  EXPECT_EQ(world.ask("sm_partition rm " + uuid + " " + part), "");
  EXPECT_THAT(world.ask("lspart"), Not(HasSubstr(part)));
}

TEST(MpsStatic, AClientRunsInThePartitionThatItNamesAndNowhereElse) {
  MpsWorld world(kNode);
  world.start_daemon({"-S"});
  const std::string small = without_end(world.ask("sm_partition add " + world.uuid() + " 1"));
  const std::string large = without_end(world.ask("sm_partition add " + world.uuid() + " 4"));
  const auto without = world.client();
  EXPECT_THAT(without.first, HasSubstr("915"));
  EXPECT_THAT(world.client({}, {{"CUDA_MPS_SM_PARTITION", world.uuid() + "/zzzzz"}}).first, HasSubstr("915"));
  const auto client = world.client({}, {{"CUDA_MPS_SM_PARTITION", large}, {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "10"}});
  ASSERT_TRUE(client.attached()) << client.first;
  EXPECT_EQ(client.number("runs_on"), 32u) << "the percentage is ignored";
  EXPECT_EQ(world.client({}, {{"CUDA_MPS_SM_PARTITION", small}}).number("runs_on"), 8u);
}

TEST(MpsStatic, WhatIsInUseStaysAsItIs) {
  MpsWorld world(kNode);
  world.start_daemon({"-S"});
  const std::string id = without_end(world.ask("sm_partition add " + world.uuid() + " 4"));
  const std::string part = id.substr(world.uuid().size() + 1);
  auto client = world.client({}, {{"CUDA_MPS_SM_PARTITION", id}});
  ASSERT_TRUE(client.attached()) << client.first;
  EXPECT_THAT(world.ask("lspart"), HasSubstr("Yes"));
  EXPECT_EQ(world.ask("sm_partition add " + world.uuid() + " 1"), "The device has active clients\n");
  EXPECT_EQ(world.ask("sm_partition rm " + world.uuid() + " " + part), "The partition is in use\n");
}

}  // namespace static_test
}  // namespace tranche::sim
