#include "plan/plan.h"

#include <gmock/gmock.h>

namespace tranche::plan {
namespace {

plan::Plan two_gpus_in_three_slots() {
  plan::Plan plan;
  plan::PlannedResource resource;
  resource.name = "nvidia.com/gpu.shared";
  for (const char* name : {"a", "b"}) {
    plan::PlannedDevice device;
    device.uuid = device.gpu_uuid = std::string("GPU-") + name;
    device.replicated = true;
    device.slots = 3;
    device.pool = std::string("gpu-") + name;
    device.numa_node = 1;
    resource.devices.push_back(device);
  }
  plan.resources.push_back(resource);
  return plan;
}

int healthy_in(const Advertised& list) {
  return static_cast<int>(std::ranges::count_if(list.slots, [](const auto& slot) { return slot.healthy; }));
}

TEST(Advertise, ListsEverySlotInDriverOrder) {
  const auto lists = advertise(two_gpus_in_three_slots(), {});
  ASSERT_EQ(lists.size(), 1u);
  std::vector<std::string> ids;
  for (const auto& slot : lists[0].slots) ids.push_back(slot.id);
  EXPECT_THAT(ids, testing::ElementsAre("GPU-a::0", "GPU-a::1", "GPU-a::2", "GPU-b::0", "GPU-b::1", "GPU-b::2"));
  EXPECT_EQ(lists[0].slots[0].numa_node, 1u);
  EXPECT_EQ(healthy_in(lists[0]), 6);
}

TEST(Advertise, FaultOfAGpuMarksAllItsSlotsAndNoOthers) {
  Faults faults;
  faults.devices["GPU-b"] = {gpu::Cause::kXid, "XID 79"};
  const auto lists = advertise(two_gpus_in_three_slots(), faults);
  for (const auto& slot : lists[0].slots) EXPECT_EQ(slot.healthy, slot.id.starts_with("GPU-a")) << slot.id;
}

TEST(Advertise, RecoveryIsTheSamePathAsFailure) {
  Faults faults;
  faults.pools["gpu-a"] = "the MPS control daemon is not answering";
  const auto plan = two_gpus_in_three_slots();
  EXPECT_EQ(healthy_in(advertise(plan, faults)[0]), 3);
  faults.pools.clear();
  EXPECT_EQ(healthy_in(advertise(plan, faults)[0]), 6);
}

TEST(Advertise, FaultOfAGpuCoversItsMigDevices) {
  plan::PlannedDevice mig;
  mig.uuid = "MIG-1";
  mig.gpu_uuid = "GPU-a";
  Faults faults;
  faults.devices["GPU-a"] = {gpu::Cause::kLost, "lost"};
  EXPECT_EQ(fault_of(mig, faults)->why, "lost");
}

TEST(Advertise, UndividedDeviceIsItsUuid) {
  auto plan = two_gpus_in_three_slots();
  plan.resources[0].devices[0].replicated = false;
  plan.resources[0].devices[0].slots = 1;
  EXPECT_EQ(advertise(plan, {})[0].slots[0].id, "GPU-a");
}

}  // namespace
}  // namespace tranche::plan
