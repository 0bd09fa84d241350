#include <gtest/gtest.h>

#include <future>

#include "nvml_probe.h"

namespace tranche::sim::nvml {
namespace {

struct Waited {
  Return result = kUnknown;
  EventData data{};
};

// A wait in a thread of its own; the caller's deadline is far above the time that a woken wait needs.
std::future<Waited> wait_for(const Session& s, EventSet set, u32 timeout_ms) {
  return std::async(std::launch::async, [&s, set, timeout_ms] {
    Waited waited;
    waited.result = s.nvml("nvmlEventSetWait_v2", set, &waited.data, timeout_ms);
    return waited;
  });
}

TEST(Events, WakeAWaitingProgramAtOnce) {
  const Session s(kFourH200);
  const auto set = s.get<EventSet>("nvmlEventSetCreate");
  ASSERT_EQ(s.nvml("nvmlDeviceRegisterEvents", s.device(2), u64{0x8 | 0x2 | 0x1}, set), kSuccess);
  auto waiting = wait_for(s, set, 60'000);
  const auto raise = [&] {  // from another process, as sim-node does
    const auto node = s.place.open();
    node->raise({.gpu = 2, .kind = EventKind::kXid, .data = 48});
    return 0;
  };
  ASSERT_EQ(wait_status(in_child(raise)), 0);
  const Waited waited = waiting.get();
  EXPECT_EQ(waited.result, kSuccess);
  EXPECT_EQ(waited.data.device, s.device(2));
  EXPECT_EQ(waited.data.type, 8u);
  EXPECT_EQ(waited.data.data, 48u);
  EXPECT_EQ(waited.data.gpu_instance_id, 0xffffffffu);
  EXPECT_EQ(s.nvml("nvmlEventSetFree", set), kSuccess);
  EXPECT_EQ(s.nvml("nvmlEventSetFree", set), kInvalidArgument);
}

TEST(Events, ComeOnceEachAndOnlyThoseAskedFor) {
  const Session s(kFourH200);
  s.node->raise({.gpu = 0, .kind = EventKind::kXid, .data = 1});  // before the registration
  const auto set = s.get<EventSet>("nvmlEventSetCreate");
  ASSERT_EQ(s.nvml("nvmlDeviceRegisterEvents", s.device(0), u64{0x8}, set), kSuccess);
  s.node->raise({.gpu = 1, .kind = EventKind::kXid, .data = 2});    // a different GPU
  s.node->raise({.gpu = 0, .kind = EventKind::kClock, .data = 0});  // a different kind
  s.node->raise({.gpu = 0, .kind = EventKind::kXid, .data = 3});
  s.node->raise({.gpu = 0, .kind = EventKind::kXid, .data = 4});
  EventData data{};
  EXPECT_EQ(s.nvml("nvmlEventSetWait_v2", set, &data, u32{0}), kSuccess);
  EXPECT_EQ(data.data, 3u);
  EXPECT_EQ(s.nvml("nvmlEventSetWait_v2", set, &data, u32{0}), kSuccess);
  EXPECT_EQ(data.data, 4u);
  EXPECT_EQ(static_cast<int>(s.nvml("nvmlEventSetWait_v2", set, &data, u32{1})), kTimeout);
  EXPECT_EQ(s.nvml("nvmlDeviceRegisterEvents", s.device(0), u64{0x40}, set), kNotSupported) << "no such event";
}

TEST(Events, ReportOfALostGpuAtOnceAndEveryTime) {
  const Session s(kFourH200);
  const auto set = s.get<EventSet>("nvmlEventSetCreate");
  ASSERT_EQ(s.nvml("nvmlDeviceRegisterEvents", s.device(3), u64{0x8}, set), kSuccess);
  auto waiting = wait_for(s, set, 60'000);
  s.node->update_gpu(3, [](GpuState& gpu) { gpu.lost = 1; });
  EXPECT_EQ(waiting.get().result, kGpuIsLost);
  EventData data{};
  EXPECT_EQ(s.nvml("nvmlEventSetWait_v2", set, &data, u32{60'000}), kGpuIsLost);
}

TEST(Events, EndWhenTheLibraryIsShutDown) {
  auto s = std::make_unique<Session>(kFourH200);
  const auto set = s->get<EventSet>("nvmlEventSetCreate");
  ASSERT_EQ(s->nvml("nvmlDeviceRegisterEvents", s->device(0), u64{0x8}, set), kSuccess);
  auto waiting = wait_for(*s, set, 60'000);
  s->nvml("nvmlShutdown");
  const Return result = waiting.get().result;
  EXPECT_TRUE(result == kUninitialized || result == kInvalidArgument) << result;
}

TEST(Events, OldWaitLeavesTheInstanceIdsAlone) {
  const Session s(kFourH200);
  const auto set = s.get<EventSet>("nvmlEventSetCreate");
  ASSERT_EQ(s.nvml("nvmlDeviceRegisterEvents", s.device(0), u64{0x8}, set), kSuccess);
  s.node->raise({.gpu = 0, .kind = EventKind::kXid, .data = 13, .gpu_instance = 1, .compute_instance = 2});
  EventData data{.device = nullptr, .type = 0, .data = 0, .gpu_instance_id = 77, .compute_instance_id = 78};
  EXPECT_EQ(s.nvml("nvmlEventSetWait", set, &data, u32{0}), kSuccess);
  EXPECT_EQ(data.gpu_instance_id, 77u);
  EXPECT_EQ(data.compute_instance_id, 78u);
}

}  // namespace
}  // namespace tranche::sim::nvml
