// Whether faults would be seen: what the driver thread reports about its own event registration, against the stand-in.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "gpu/driver/watcher_fixture.h"

namespace tranche::gpu::nvml {
namespace watch_test {

using namespace std::chrono_literals;
using testing::HasSubstr;
using What = GpuEvent::What;

constexpr const char* kTwoH200 = "gpus: {profile: H200, count: 2}\ntopology: vm\n";

long count(const Watcher& watcher, What what) {
  return std::ranges::count(watcher.events, what, &GpuEvent::what);
}

// Promise: driver/events: A GPU whose events cannot be registered is unhealthy until they can.
TEST(NvmlWatch, AGpuWhoseEventsCannotBeRegisteredIsReportedAndReportedAgainWhenTheyCan) {
  SimFixture sim(kTwoH200);
  sim.fail_call("nvmlDeviceRegisterEvents", 1, 999);
  Watcher watcher(quick(sim));
  ASSERT_TRUE(watcher.until([&] { return !watcher.events.empty(); }));
  EXPECT_EQ(watcher.events[0].what, What::kUnwatched);
  EXPECT_EQ(watcher.events[0].gpu_uuid, sim.node().gpus()[1].uuid);
  EXPECT_THAT(watcher.events[0].why, HasSubstr("nvmlDeviceRegisterEvents"));
  sim.node().raise({.gpu = 0, .kind = sim::EventKind::kXid, .data = 31});
  ASSERT_TRUE(watcher.until([&] { return watcher.events.size() == 2; })) << "the other one is watched all the same";
  EXPECT_EQ(watcher.events[1].xid, 31u);
  sim.node().clear_faults();
  ASSERT_TRUE(watcher.until([&] { return watcher.events.size() == 3; }));
  EXPECT_EQ(watcher.events[2].what, What::kWatched);
  EXPECT_EQ(watcher.events[2].gpu_uuid, sim.node().gpus()[1].uuid);
  sim.node().raise({.gpu = 1, .kind = sim::EventKind::kXid, .data = 79});
  ASSERT_TRUE(watcher.until([&] { return watcher.events.size() == 4; }));
  EXPECT_EQ(watcher.events[3].xid, 79u);
}

TEST(NvmlWatch, ADriverThatWillNotSayWhichEventsAGpuHasIsAFailureToo) {
  SimFixture sim(kTwoH200);
  sim.fail_call("nvmlDeviceGetSupportedEventTypes", 0, 999);
  Watcher watcher(quick(sim));
  ASSERT_TRUE(watcher.until([&] { return !watcher.events.empty(); }));
  EXPECT_EQ(watcher.events[0].what, What::kUnwatched);
  EXPECT_EQ(watcher.events[0].gpu_uuid, sim.node().gpus()[0].uuid);
}

TEST(NvmlWatch, WithoutAnEventSetNoGpuIsWatched) {
  SimFixture sim(kTwoH200);
  sim.fail_call("nvmlEventSetCreate", -1, 999);
  Watcher watcher(quick(sim));
  ASSERT_TRUE(watcher.until([&] { return count(watcher, What::kUnwatched) == 2; }));
  sim.node().clear_faults();
  ASSERT_TRUE(watcher.until([&] { return count(watcher, What::kWatched) == 2; }));
  sim.node().raise({.gpu = 1, .kind = sim::EventKind::kXid, .data = 79});
  EXPECT_TRUE(watcher.until([&] { return count(watcher, What::kXid) == 1; }));
}

// Promise: driver/events: The loss of a GPU without events is noticed.
TEST(NvmlWatch, AGpuThatHasNoEventsIsReportedOnceAndItsLossIsStillNoticed) {
  SimFixture sim(kTwoH200);
  sim.fail_call("nvmlDeviceGetSupportedEventTypes", 1, 3);
  Watcher watcher(quick(sim));
  ASSERT_TRUE(watcher.until([&] { return !watcher.events.empty(); }));
  EXPECT_EQ(watcher.events[0].what, What::kUnsupported);
  sim.lose(1, true);
  ASSERT_TRUE(watcher.until([&] { return count(watcher, What::kLost) == 1; }));
  sim.lose(1, false);
  ASSERT_TRUE(watcher.until([&] { return count(watcher, What::kBack) == 1; }));
  EXPECT_EQ(count(watcher, What::kUnsupported), 1);
  EXPECT_EQ(count(watcher, What::kUnwatched), 0);
}

// Promise: driver/events: A failing wait is reported once for each GPU and ends when waiting works.
TEST(NvmlWatch, AFailingWaitIsReportedOncePerGpuAndEndsWhenWaitingWorks) {
  SimFixture sim(kTwoH200);
  Watcher watcher(quick(sim));
  ASSERT_TRUE(watcher.until([&] { return has_gpus(watcher, 2); }));
  sim.fail_call("nvmlEventSetWait_v2", -1, 999);
  ASSERT_TRUE(watcher.until([&] { return count(watcher, What::kUnwatched) == 2; }));
  EXPECT_THAT(watcher.events[0].why, HasSubstr("waiting for events fails"));
  // Long enough for a restart of the library, which is the last resort.
  ASSERT_TRUE(watcher.until([&] { return watcher.inventories.size() >= 2; }));
  sim.node().clear_faults();
  ASSERT_TRUE(watcher.until([&] { return count(watcher, What::kWatched) == 2; }));
  EXPECT_EQ(watcher.events.size(), 4u) << "no flood";
  sim.node().raise({.gpu = 1, .kind = sim::EventKind::kXid, .data = 79});
  EXPECT_TRUE(watcher.until([&] { return count(watcher, What::kXid) == 1; }));
}

TEST(NvmlWatch, WithoutFaultEventsXidsAreNotHeardAndALossIs) {
  SimFixture sim(kTwoH200);
  sim.fail_call("nvmlEventSetWait_v2", -1, 999);  // irrelevant then
  NvmlSettings settings = quick(sim);
  settings.fault_events = false;
  Watcher watcher(settings);
  ASSERT_TRUE(watcher.until([&] { return has_gpus(watcher, 2); }));
  sim.node().raise({.gpu = 0, .kind = sim::EventKind::kXid, .data = 79});
  sim.lose(1, true);
  ASSERT_TRUE(watcher.until([&] { return !watcher.events.empty(); }));
  EXPECT_EQ(watcher.events[0].what, What::kLost);
  sim.lose(1, false);
  ASSERT_TRUE(watcher.until([&] { return count(watcher, What::kBack) == 1; }));
  EXPECT_EQ(watcher.events.size(), 2u);
}

// Promise: driver/events: A hung call and its return are reported.
TEST(NvmlWatch, AHungCallIsReportedAndSoIsItsReturn) {
  SimFixture sim(kTwoH200);
  NvmlSettings settings = quick(sim);
  settings.silence = 1s;
  Watcher watcher(settings);
  ASSERT_TRUE(watcher.until([&] { return has_gpus(watcher, 2); }));
  sim.hang_call("nvmlEventSetWait_v2", 0);
  ASSERT_TRUE(watcher.until([&] { return !watcher.events.empty(); }));
  EXPECT_EQ(watcher.events[0].what, What::kSilent);
  EXPECT_THAT(watcher.events[0].why, HasSubstr("has not returned"));
  sim.node().clear_faults();
  ASSERT_TRUE(watcher.until([&] { return watcher.events.size() == 2; }));
  EXPECT_EQ(watcher.events[1].what, What::kAnswering);
}

// Promise: driver/library: A driver that is unloaded takes its GPUs along and brings them back.
TEST(NvmlWatch, ADriverThatIsUnloadedTakesItsGpusAlongAndBringsThemBack) {
  SimFixture sim(kTwoH200);
  Watcher watcher(quick(sim));
  ASSERT_TRUE(watcher.until([&] { return has_gpus(watcher, 2); }));
  sim.node().set_driver_present(false);
  sim.fail_call("nvmlDeviceGetCount_v2", -1, 999);
  watcher.thread().rescan();
  ASSERT_TRUE(watcher.until([&] { return count(watcher, What::kLost) == 2; }));
  sim.node().clear_faults();
  sim.node().set_driver_present(true);
  ASSERT_TRUE(watcher.until([&] { return count(watcher, What::kBack) == 2; }));
  EXPECT_EQ(watcher.events.size(), 4u);
}

// Promise: driver/events: The driver's demand for a reset is read.
TEST(NvmlWatch, WhatTheDriverWantsToBeDoneIsReportedByAnEventAndReadWithTheUse) {
  SimFixture sim(kTwoH200);
  Watcher watcher(quick(sim));
  ASSERT_TRUE(watcher.until([&] { return has_gpus(watcher, 2); }));
  watcher.thread().ask_use();
  ASSERT_TRUE(watcher.until([&] { return !watcher.uses.empty(); }));
  EXPECT_EQ(watcher.uses.back()->at(1).demand, 0u);
  sim.node().update_gpu(1, [](sim::GpuState& state) { state.recovery_action = 1; });
  sim.node().raise({.gpu = 1, .kind = sim::EventKind::kRecoveryAction});
  ASSERT_TRUE(watcher.until([&] { return count(watcher, What::kDemand) == 1; }));
  watcher.thread().ask_use();
  ASSERT_TRUE(watcher.until([&] { return watcher.uses.size() == 2; }));
  EXPECT_EQ(watcher.uses.back()->at(0).demand, 0u);
  EXPECT_EQ(watcher.uses.back()->at(1).demand, 1u);
}

TEST(NvmlWatch, AMigDeviceWithoutAPlaceIsListedAndLookedAtAgain) {
  SimFixture sim("gpus:\n  - {profile: H200, mig: [3g.71gb, 3g.71gb]}\n");
  sim.fail_call("nvmlDeviceGetGpuInstanceId", 0, 999);
  Watcher watcher(quick(sim));
  ASSERT_TRUE(watcher.until([&] { return has_gpus(watcher, 1); }));
  const auto& before = watcher.inventories.back()->gpus[0].mig_devices;
  ASSERT_EQ(before.size(), 2u);
  EXPECT_FALSE(is_placed(before[0]));
  EXPECT_EQ(before[0].profile, "3g.71gb");
  sim.node().clear_faults();
  ASSERT_TRUE(watcher.until([&] { return watcher.inventories.size() >= 2; }));
  for (const auto& mig : watcher.inventories.back()->gpus[0].mig_devices) EXPECT_TRUE(is_placed(mig));
}

}  // namespace watch_test
}  // namespace tranche::gpu::nvml
