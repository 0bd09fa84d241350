// The driver thread against the stand-in: late driver, events, lost GPUs, hung calls, stop.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "gpu/driver/watcher_fixture.h"

namespace tranche::gpu::nvml {
namespace thread_test {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr const char* kTwoH200 = "gpus: {profile: H200, count: 2}\ntopology: vm\n";

TEST(NvmlThread, ReportsTheInventoryAtOnce) {
  SimFixture sim(kTwoH200);
  Watcher watcher(quick(sim));
  ASSERT_TRUE(watcher.until([&] { return has_gpus(watcher, 2); }));
  EXPECT_EQ(watcher.inventories.size(), 1u);
}

// Promise: driver/library: A driver that comes late is waited for.
TEST(NvmlThread, WaitsForALateDriver) {
  SimFixture sim(kTwoH200);
  sim.node().set_driver_present(false);
  Watcher watcher(quick(sim));
  ASSERT_TRUE(watcher.until([&] { return watcher.inventories.size() >= 3; })) << "every attempt is reported";
  for (const auto& inventory : watcher.inventories) {
    ASSERT_FALSE(inventory);
    EXPECT_THAT(inventory.error().what, HasSubstr("not loaded"));
  }
  watcher.thread().ask_use();
  ASSERT_TRUE(watcher.until([&] { return !watcher.uses.empty(); })) << "questions are answered meanwhile";
  EXPECT_FALSE(watcher.uses.front());
  sim.node().set_driver_present(true);
  EXPECT_TRUE(watcher.until([&] { return has_gpus(watcher, 2); }));
}

TEST(NvmlThread, WaitsForTheLibraryToBecomeUsable) {
  SimFixture sim(kTwoH200);
  sim.remove_library();
  sim.write("/usr/lib64/libnvidia-ml.so.1", "half of an installation");
  Watcher watcher(quick(sim));
  ASSERT_TRUE(watcher.until([&] { return !watcher.inventories.empty(); }));
  EXPECT_FALSE(watcher.inventories.front());
  sim.remove_library();
  sim.add_library();
  EXPECT_TRUE(watcher.until([&] { return has_gpus(watcher, 2); }));
}

// Promise: driver/library: The driver's device file ends the back-off.
TEST(NvmlThread, DoesNotWaitOutTheBackOffWhenTheDriversDeviceAppears) {
  SimFixture sim(kTwoH200);
  sim.node().set_driver_present(false);
  NvmlSettings settings = quick(sim);
  settings.retry_first = settings.retry_most = 1h;
  Watcher watcher(settings);
  ASSERT_TRUE(watcher.until([&] { return !watcher.inventories.empty(); }));
  sim.node().set_driver_present(true);
  // The watch is set between the first attempt and the wait: create the node repeatedly until one falls into it.
  const auto make_device = [&sim](int i) {
    const std::string name = sim.root() + "/dev/nvidiactl";
    std::ofstream(name + std::to_string(i)) << "";
    std::filesystem::rename(name + std::to_string(i), name);
  };
  int made = 0;
  EXPECT_TRUE(watcher.until([&] {
    make_device(made++);
    watcher.loop().after(20ms, [&watcher] { watcher.stopped(); });
    return has_gpus(watcher, 2);
  }));
}

// Promise: driver/events: An XID is reported with its GPU and instances.
TEST(NvmlThread, ReportsAnXidWithItsGpuAndInstances) {
  SimFixture sim(kTwoH200);
  Watcher watcher(quick(sim));
  ASSERT_TRUE(watcher.until([&] { return has_gpus(watcher, 2); }));
  watcher.thread().ask_use();  // answered after the events were registered
  ASSERT_TRUE(watcher.until([&] { return !watcher.uses.empty(); }));
  sim.node().raise({.gpu = 1, .kind = sim::EventKind::kXid, .data = 94, .gpu_instance = 3, .compute_instance = 0});
  sim.node().raise({.gpu = 0, .kind = sim::EventKind::kXid, .data = 48});
  ASSERT_TRUE(watcher.until([&] { return watcher.events.size() == 2; }));
  EXPECT_EQ(watcher.events[0].what, GpuEvent::What::kXid);
  EXPECT_EQ(watcher.events[0].xid, 94u);
  EXPECT_EQ(watcher.events[0].gpu_uuid, sim.node().gpus()[1].uuid);
  EXPECT_EQ(watcher.events[0].gpu_instance, 3u);
  EXPECT_EQ(watcher.events[0].compute_instance, 0u);
  EXPECT_EQ(watcher.events[1].xid, 48u);
  EXPECT_EQ(watcher.events[1].gpu_uuid, sim.node().gpus()[0].uuid);
}

// Promise: driver/events: A lost GPU and its return are reported.
TEST(NvmlThread, ReportsALostGpuAndItsReturn) {
  SimFixture sim(kTwoH200);
  const std::string uuid = sim.node().gpus()[1].uuid;
  Watcher watcher(quick(sim));
  ASSERT_TRUE(watcher.until([&] { return has_gpus(watcher, 2); }));
  sim.lose(1, true);
  ASSERT_TRUE(watcher.until([&] { return has_gpus(watcher, 1); }));
  ASSERT_EQ(watcher.events.size(), 1u);
  EXPECT_EQ(watcher.events[0].what, GpuEvent::What::kLost);
  EXPECT_EQ(watcher.events[0].gpu_uuid, uuid);
  EXPECT_THAT(watcher.inventories.back()->unreadable.at(0), HasSubstr(uuid));

  sim.node().raise({.gpu = 0, .kind = sim::EventKind::kXid, .data = 31});
  ASSERT_TRUE(watcher.until([&] { return watcher.events.size() == 2; })) << "the other GPU is still watched";
  EXPECT_EQ(watcher.events[1].xid, 31u);

  sim.lose(1, false);
  ASSERT_TRUE(watcher.until([&] { return has_gpus(watcher, 2); }));
  EXPECT_EQ(watcher.events.back().what, GpuEvent::What::kBack);
  EXPECT_EQ(watcher.events.back().gpu_uuid, uuid);
  EXPECT_EQ(watcher.events.size(), 3u) << "each change is reported once";
}

TEST(NvmlThread, RescansWhenTheMigLayoutChanges) {
  SimFixture sim("gpus:\n  - {profile: H200, mig: [3g.71gb, 3g.71gb]}\n");
  Watcher watcher(quick(sim));
  const auto devices = [&] {
    return has_gpus(watcher, 1) ? watcher.inventories.back()->gpus[0].mig_devices.size() : 9;
  };
  ASSERT_TRUE(watcher.until([&] { return devices() == 2; }));
  watcher.thread().ask_use();
  ASSERT_TRUE(watcher.until([&] { return !watcher.uses.empty(); }));
  sim.node().update_gpu(0, [](sim::GpuState& state) {
    for (sim::GpuInstanceState& instance : state.instances) {
      if (instance.used != 0) {
        instance = {};
        break;
      }
    }
  });
  sim.node().raise({.gpu = 0, .kind = sim::EventKind::kMigChange});
  EXPECT_TRUE(watcher.until([&] { return devices() == 1; }));
}

TEST(NvmlThread, SetsTheComputeModeAndAnswersOnTheLoop) {
  SimFixture sim(kTwoH200);
  Watcher watcher(quick(sim));
  ASSERT_TRUE(watcher.until([&] { return has_gpus(watcher, 2); }));
  std::optional<Status> answer;
  watcher.thread().set_compute_mode(sim.node().gpus()[0].uuid, ComputeMode::kExclusiveProcess, [&](Status status) {
    answer = std::move(status);
    watcher.stopped();
  });
  ASSERT_TRUE(watcher.until([&] { return answer.has_value(); }));
  EXPECT_TRUE(*answer) << to_string(answer->error());
  EXPECT_EQ(sim.node().compute_mode(0), 3);
}

TEST(NvmlThread, StopsAtOnce) {
  SimFixture sim(kTwoH200);
  NvmlSettings settings = quick(sim);
  settings.event_pace = 1h;
  settings.patience = 1h;
  Watcher watcher(settings);
  ASSERT_TRUE(watcher.until([&] { return has_gpus(watcher, 2); }));
  watcher.end();
}

// Promise: driver/library: A driver call that hangs does not delay the stop.
TEST(NvmlThread, IsNotHeldUpByAHungCall) {
  SimFixture sim(kTwoH200);
  NvmlSettings settings = quick(sim);
  settings.patience = 50ms;
  Watcher watcher(settings);
  ASSERT_TRUE(watcher.until([&] { return has_gpus(watcher, 2); }));
  sim.hang_call("nvmlDeviceGetMemoryInfo", 0);
  watcher.thread().ask_use();
  bool turned = false;
  watcher.loop().post([&] {
    turned = true;
    watcher.stopped();
  });
  EXPECT_TRUE(watcher.until([&] { return turned; })) << "the loop goes on";
  watcher.end();
  EXPECT_TRUE(watcher.uses.empty());
  sim.node().clear_faults();  // lets the abandoned thread end, which must not do harm
}

}  // namespace thread_test
}  // namespace tranche::gpu::nvml
