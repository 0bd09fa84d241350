// GPUs that are added and removed, and a replaced driver, against the stand-in: the kernel shows the change, and the
// library is restarted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <optional>

#include "gpu/driver/kernel_signs.h"
#include "gpu/driver/library.h"
#include "gpu/driver/watcher_fixture.h"

namespace tranche::gpu::nvml {
namespace hotplug_test {

using namespace std::chrono_literals;
using testing::ElementsAre;
namespace fs = std::filesystem;

constexpr const char* kTwoH200 = "gpus: {profile: H200, count: 2}\ntopology: vm\n";

// The thread reads the kernel's signs only on a hint, not every minute.
NvmlSettings hinted(const SimFixture& sim) {
  NvmlSettings settings = quick(sim);
  settings.signs_every = 1h;
  settings.signs_settle = 5ms;
  return settings;
}

void plug(SimFixture& sim, int gpu, bool in) {
  sim.node().update_gpu(gpu, [in](sim::GpuState& state) { state.unplugged = in ? 0 : 1; });
}

TEST(KernelSigns, AreTheDeviceNodesTheAddressesAndTheVersion) {
  SimFixture sim(kTwoH200);
  EXPECT_EQ(look_at_kernel(sim.root()), KernelSigns{});
  for (const char* name : {"nvidia1", "nvidia0", "nvidiactl", "nvidia-uvm", "nvidia0x"})
    sim.write(std::string("/dev/") + name, "");
  for (const char* name : {"0000:3b:00.0", "bind", "module"})
    sim.write(std::string("/sys/bus/pci/drivers/nvidia/") + name, "");
  sim.write("/sys/module/nvidia/version", "580.159.04\n");
  const auto signs = look_at_kernel(sim.root());
  EXPECT_THAT(signs.devices, ElementsAre("nvidia0", "nvidia1"));
  EXPECT_THAT(signs.addresses, ElementsAre("0000:3b:00.0"));
  EXPECT_EQ(signs.version, "580.159.04");
}

TEST(KernelSigns, AHintIsANodeOfAGpuOrTheControlDevice) {
  for (const char* name : {"nvidia7", "nvidiactl"}) EXPECT_TRUE(is_node_of_driver(name));
  for (const char* name : {"nvidia-uvm", "nvidia", "null"}) EXPECT_FALSE(is_node_of_driver(name));
}

// Promise: driver/hotplug: A GPU that appears is found by its device node.
TEST(HotPlug, AGpuThatAppearsIsFoundByItsDeviceNode) {
  SimFixture sim(kTwoH200);
  sim.write("/dev/nvidia0", "");
  plug(sim, 1, false);
  Watcher watcher(hinted(sim));
  ASSERT_TRUE(watcher.until([&] { return has_gpus(watcher, 1); }));
  plug(sim, 1, true);
  sim.write("/dev/nvidia1", "");
  ASSERT_TRUE(watcher.until([&] { return has_gpus(watcher, 2); }));
  EXPECT_THAT(watcher.events, testing::IsEmpty()) << "nothing is lost meanwhile";
  sim.node().raise({.gpu = 1, .kind = sim::EventKind::kXid, .data = 31});
  ASSERT_TRUE(watcher.until([&] { return watcher.events.size() == 1; })) << "and it is watched";
  EXPECT_EQ(watcher.events[0].gpu_uuid, sim.node().gpus()[1].uuid);
}

// Promise: driver/hotplug: A GPU that answers later than its device node appears is found.
TEST(HotPlug, AGpuThatAnswersLaterThanItsDeviceNodeAppearsIsFoundToo) {
  SimFixture sim(kTwoH200);
  plug(sim, 1, false);
  NvmlSettings settings = hinted(sim);
  settings.signs_settle = 300ms;  // the last of four restarts comes 11.7 s after the node
  Watcher watcher(settings);
  ASSERT_TRUE(watcher.until([&] { return has_gpus(watcher, 1); }));
  sim.write("/dev/nvidia1", "");
  watcher.loop().after(600ms, [&] { plug(sim, 1, true); });  // after the first of them
  EXPECT_TRUE(watcher.until([&] { return has_gpus(watcher, 2); }));
}

// Promise: driver/hotplug: A GPU that vanishes is missed by its device node and found again.
TEST(HotPlug, AGpuThatVanishesIsMissedByItsDeviceNodeAndFoundAgain) {
  SimFixture sim(kTwoH200);
  for (const char* name : {"/dev/nvidia0", "/dev/nvidia1"}) sim.write(name, "");
  Watcher watcher(hinted(sim));
  ASSERT_TRUE(watcher.until([&] { return has_gpus(watcher, 2); }));
  plug(sim, 0, false);
  fs::remove(sim.root() + "/dev/nvidia0");
  ASSERT_TRUE(watcher.until([&] { return has_gpus(watcher, 1); }));
  EXPECT_EQ(watcher.inventories.back()->gpus[0].uuid, sim.node().gpus()[1].uuid);
  plug(sim, 0, true);
  sim.write("/dev/nvidia0", "");
  EXPECT_TRUE(watcher.until([&] { return has_gpus(watcher, 2); }));
}

// Promise: driver/hotplug: Without a hint the kernel's list is read once a minute.
TEST(HotPlug, WithoutAHintTheKernelsListIsReadNowAndThen) {
  SimFixture sim(kTwoH200);
  plug(sim, 1, false);
  fs::remove_all(sim.root() + "/dev");
  sim.write("/sys/bus/pci/drivers/nvidia/0000:01:00.0", "");
  NvmlSettings settings = hinted(sim);
  settings.signs_every = 20ms;
  Watcher watcher(settings);
  ASSERT_TRUE(watcher.until([&] { return has_gpus(watcher, 1); }));
  plug(sim, 1, true);
  sim.write("/sys/bus/pci/drivers/nvidia/0000:02:00.0", "");
  EXPECT_TRUE(watcher.until([&] { return has_gpus(watcher, 2); }));
}

// A driver whose version the kernel shows, and two GPUs that were found.
class ShownDriver : public ::testing::Test {
 protected:
  void SetUp() override {
    show("580.159.04\n");
    NvmlSettings settings = hinted(sim_);
    settings.signs_every = 20ms;
    watcher_.emplace(settings);
    ASSERT_TRUE(watcher_->until([&] { return has_gpus(*watcher_, 2); }));
  }
  void show(const std::string& version) { sim_.write("/sys/module/nvidia/version", version); }

  SimFixture sim_{kTwoH200};
  std::optional<Watcher> watcher_;
};

// Promise: driver/hotplug: A different driver is opened when the kernel shows it.
TEST_F(ShownDriver, AnotherIsOpenedAsSoonAsTheKernelShowsIt) {
  EXPECT_EQ(watcher_->inventories.back()->driver_version, "580.159.04");
  sim_.node().set_driver_version("590.44.01", 13010);
  show("590.44.01\n");
  ASSERT_TRUE(watcher_->until([&] { return watcher_->inventories.size() >= 2; }));
  EXPECT_EQ(watcher_->inventories.back()->driver_version, "590.44.01");
  EXPECT_EQ(watcher_->inventories.back()->cuda_driver_version, 13010);
}

TEST_F(ShownDriver, OneThatIsUnloadedIsWaitedForAndOpenedAgain) {
  sim_.node().set_driver_present(false);
  fs::remove(sim_.root() + "/sys/module/nvidia/version");
  ASSERT_TRUE(watcher_->until([&] { return !watcher_->inventories.back(); }));
  sim_.node().set_driver_present(true);
  EXPECT_TRUE(watcher_->until([&] { return has_gpus(*watcher_, 2); }));
}

TEST(HotPlug, WhatIsAskedForAnewFindsAGpuThatCameWithoutAHint) {
  SimFixture sim(kTwoH200);
  plug(sim, 1, false);
  Watcher watcher(hinted(sim));
  ASSERT_TRUE(watcher.until([&] { return has_gpus(watcher, 1); }));
  plug(sim, 1, true);
  sim.write("/sys/bus/pci/drivers/nvidia/0000:02:00.0", "");
  watcher.thread().rescan();
  EXPECT_TRUE(watcher.until([&] { return has_gpus(watcher, 2); }));
}

// A driver that was replaced while its library was mapped: by its name the loader would give the old one.
// Promise: driver/library: A different file under the same name is loaded anew.
TEST(Library, OfAnotherFileUnderTheSameNameIsLoadedAnew) {
  SimFixture sim(kTwoH200);
  const std::string path = sim.root() + "/usr/lib64/libnvidia-ml.so.1";
  const auto init_of = [&]() -> const void* {
    const auto library = Library::open(sim.root());
    EXPECT_TRUE(library);
    return library ? reinterpret_cast<const void*>((*library)->functions().init) : nullptr;
  };
  const auto replace = [&] {
    fs::copy_file(path, path + ".new");
    fs::rename(path + ".new", path);
  };
  const void* first = init_of();
  EXPECT_EQ(init_of(), first) << "the same file is the same library";
  replace();
  const void* second = init_of();
  EXPECT_NE(second, first);
  EXPECT_EQ(init_of(), second);
  replace();
  const void* third = init_of();
  EXPECT_NE(third, first);
  EXPECT_NE(third, second);
}

}  // namespace hotplug_test
}  // namespace tranche::gpu::nvml
