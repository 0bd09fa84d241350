// What a node is found to be: its platform, its MIG devices' names and nodes, and what the driver does not report.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpu/driver/driver.h"
#include "gpu/driver/sim_fixture.h"
#include "standins/node/mig.h"

namespace tranche::gpu::nvml {
namespace discovery_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::UnorderedElementsAre;

constexpr const char* kTable = "/proc/driver/nvidia-caps/mig-minors";
constexpr const char* kTwoH200 = "gpus: {profile: H200, count: 2}\ntopology: vm\n";

Result<Inventory> scan(const NvmlSettings& settings) {
  TRY(const auto nvml, Driver::open(settings));
  return nvml->scan();
}

Inventory scan(const SimFixture& sim) {
  auto node = scan(sim.settings());
  if (node) return *std::move(node);
  ADD_FAILURE() << to_string(node.error());
  return {};
}

std::vector<std::string> profiles_of(const Gpu& gpu) {
  std::vector<std::string> profiles;
  for (const auto& mig : gpu.mig_devices) profiles.push_back(mig.profile);
  return profiles;
}

// Platform.

// A driver root without a loadable NVML library, whatever else the loader would find.
NvmlSettings without_library(SimFixture& sim) {
  sim.remove_library();
  sim.write("/usr/lib64/libnvidia-ml.so.1", "half of an installation");
  return sim.settings();
}

TEST(NodePlatform, IsNvmlOnAnOrdinaryNode) {
  SimFixture sim(kTwoH200);
  EXPECT_EQ(scan(sim).platform, Platform::kNvml);
}

TEST(NodePlatform, IsTegraByItsFilesWhereTheLibraryDoesNotLoad) {
  SimFixture with_library(kTwoH200);
  with_library.write("/etc/nv_tegra_release", "# R36");
  EXPECT_EQ(scan(with_library).platform, Platform::kNvml);
  SimFixture sim(kTwoH200);
  sim.write("/etc/nv_tegra_release", "# R36");
  const auto tegra = scan(without_library(sim));
  ASSERT_TRUE(tegra) << to_string(tegra.error());
  EXPECT_EQ(tegra->platform, Platform::kTegra);
  EXPECT_THAT(tegra->gpus, IsEmpty());
}

TEST(NodePlatform, ADriverThatIsNotLoadedYetMakesNoTegra) {
  SimFixture sim(kTwoH200);
  sim.write("/etc/nv_tegra_release", "# R36");
  sim.node().set_driver_present(false);
  const auto waiting = scan(sim.settings());
  ASSERT_FALSE(waiting) << "the library loads, so its driver is waited for";
  EXPECT_EQ(waiting.error().kind, Kind::kUnavailable);
}

TEST(NodePlatform, IsTegraWhereTheLibraryListsAnIntegratedGpu) {
  for (const char* name : {"Orin (nvgpu)", "NVIDIA Thor"}) {
    SimFixture sim("gpus: {profile: H200, count: 1}\n");
    sim.node().update_gpu(0, [name](sim::GpuState& state) { state.profile.name = name; });
    sim.fail_call("nvmlDeviceGetMinorNumber", -1, 3);  // it has no node of its own
    const Inventory node = scan(sim);
    EXPECT_EQ(node.platform, Platform::kTegra) << name;
    EXPECT_THAT(node.gpus, SizeIs(1)) << name;
  }
}

TEST(NodePlatform, IsWhatTheStrategySaysWhenItNamesOne) {
  SimFixture sim(kTwoH200);
  NvmlSettings settings = sim.settings();
  settings.discovery = config::DiscoveryStrategy::kTegra;
  const auto tegra = scan(settings);
  ASSERT_TRUE(tegra);
  EXPECT_EQ(tegra->platform, Platform::kTegra);
  EXPECT_THAT(tegra->gpus, IsEmpty()) << "the library is not even opened";

  sim.write("/etc/nv_tegra_release", "# R36");
  settings = without_library(sim);
  settings.discovery = config::DiscoveryStrategy::kNvml;
  const auto waiting = scan(settings);
  ASSERT_FALSE(waiting);
  EXPECT_EQ(waiting.error().kind, Kind::kUnavailable);
}

TEST(NodePlatform, IsWslWhereItsLibraryLoads) {
  SimFixture sim(kTwoH200);
  SimFixture::put(std::string(std::getenv("TRANCHE_BUILD")) + "/standins/wsl/libdxcore.so",
                  sim.root() + "/usr/lib64/libdxcore.so");
  sim.fail_call("nvmlDeviceGetMinorNumber", -1, 3);
  const Inventory node = scan(sim);
  EXPECT_EQ(node.platform, Platform::kWsl);
  EXPECT_THAT(node.gpus, SizeIs(2)) << "nobody needs their numbers there";
}

TEST(NodePlatform, TegraAnswersQuestionsAboutUseWithNothing) {
  SimFixture sim(kTwoH200);
  NvmlSettings settings = sim.settings();
  settings.discovery = config::DiscoveryStrategy::kTegra;
  const auto nvml = Driver::open(settings);
  ASSERT_TRUE(nvml);
  const auto use = (*nvml)->use();
  ASSERT_TRUE(use) << to_string(use.error());
  EXPECT_THAT(*use, IsEmpty());
}

// The library.

// Promise: driver/library: A link out of the driver root is not followed.
TEST(Library, WhoseLinkLeadsOutOfTheDriverRootIsNotTaken) {
  SimFixture sim(kTwoH200);
  sim.remove_library();
  std::filesystem::create_symlink(std::string(std::getenv("TRANCHE_BUILD")) + "/standins/libnvidia-ml.so.1",
                                  sim.root() + "/usr/lib64/libnvidia-ml.so.1");
  sim.write("/lib64/libnvidia-ml.so.1", "the next candidate");
  const auto nvml = Driver::open(sim.settings());
  ASSERT_FALSE(nvml);
  EXPECT_EQ(nvml.error().where, sim.root() + "/lib64/libnvidia-ml.so.1");
}

// Opening can fail in two ways, the cases of GPU feature discovery's fallback; here neither failure is permanent.
TEST(Library, ThatDoesNotStartIsTriedAgainAndThenServes) {
  SimFixture sim(kTwoH200);
  sim.fail_call("nvmlInit_v2", -1, 999);
  const auto failed = scan(sim.settings());
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().kind, Kind::kUnavailable) << "which the agents wait out";
  sim.node().clear_faults();
  EXPECT_THAT(scan(sim).gpus, SizeIs(2));
}

// Facts that the driver does not report.

// Promise: driver/scan: A GPU without memory or capability is served and the gap is reported.
TEST(NodeDoubts, AGpuWithoutMemoryOrCapabilityIsServedAndTheDoubtSaid) {
  SimFixture sim(kTwoH200);
  sim.fail_call("nvmlDeviceGetMemoryInfo", 1, 3);
  sim.fail_call("nvmlDeviceGetCudaComputeCapability", 0, 999);
  const Inventory node = scan(sim);
  ASSERT_THAT(node.gpus, SizeIs(2));
  EXPECT_EQ(node.gpus[1].memory, Bytes{0});
  EXPECT_EQ(node.gpus[0].compute_capability, ComputeCapability{});
  ASSERT_THAT(node.doubts, SizeIs(2));
  EXPECT_THAT(node.doubts[0], HasSubstr("GPU 0 (" + node.gpus[0].uuid + "): the driver does not report its compute"));
  EXPECT_THAT(node.doubts[1],
              HasSubstr("GPU 1 (" + node.gpus[1].uuid + "): the driver does not report its memory size"));
}

// Promise: driver/scan: A GPU without a minor number is left out.
TEST(NodeDoubts, AGpuWithoutAMinorNumberIsLeftOutBecauseAGuessWouldNameAnothersNode) {
  SimFixture sim(kTwoH200);
  sim.fail_call("nvmlDeviceGetMinorNumber", 0, 3);
  const Inventory node = scan(sim);
  ASSERT_THAT(node.gpus, SizeIs(1));
  EXPECT_EQ(node.gpus[0].index, 1u);
  EXPECT_THAT(node.unreadable,
              ElementsAre(HasSubstr("GPU 0: the driver does not report which device node is its own")));
}

// Promise: driver/scan: A NUMA node that is not a number is reported and the GPU is served.
TEST(NodeDoubts, ANumaNodeThatIsNoNumberIsSaidAndTheGpuServedWithoutOne) {
  SimFixture sim(kTwoH200);
  sim.write("/sys/bus/pci/devices/0000:00:06.0/numa_node", "zero\n");
  sim.write("/sys/bus/pci/devices/0000:00:07.0/numa_node", "0\n");
  const Inventory node = scan(sim);
  ASSERT_THAT(node.gpus, SizeIs(2));
  EXPECT_EQ(node.gpus[0].numa_node, std::nullopt);
  EXPECT_EQ(node.gpus[1].numa_node, 0u);
  EXPECT_THAT(node.doubts, ElementsAre(HasSubstr("\"zero\" is not the number of a NUMA node")));
}

TEST(NodeDoubts, ThePcieRootIsThatOfTheKernelsLinkAndElseUnknown) {
  SimFixture sim(kTwoH200);
  const std::string devices = sim.root() + "/sys/bus/pci/devices";
  std::filesystem::create_directories(devices);
  std::filesystem::create_directory_symlink("../../../devices/pci0000:00/0000:00:01.0/0000:00:06.0",
                                            devices + "/0000:00:06.0");
  const Inventory node = scan(sim);
  ASSERT_THAT(node.gpus, SizeIs(2));
  EXPECT_EQ(node.gpus[0].pcie_root, "pci0000:00");
  EXPECT_EQ(node.gpus[1].pcie_root, "");
}

// Promise: driver/scan: Device nodes follow the driver's minor numbers, not the indices.
TEST(NodeDoubts, MinorNumbersAreTheDriversAndNotTheIndices) {
  SimFixture sim("gpus:\n  - {profile: H200, minor: 3}\n  - {profile: H200, minor: 0}\ntopology: vm\n");
  const Inventory node = scan(sim);
  ASSERT_THAT(node.gpus, SizeIs(2));
  EXPECT_EQ(node.gpus[0].minor, 3u);
  EXPECT_EQ(node.gpus[1].minor, 0u);
  EXPECT_THAT(node.doubts, IsEmpty());
}

// MIG.

// Promise: driver/mig: Media engines and graphics are named as NVIDIA's programs name them.
TEST(MigNames, SayMediaEnginesAndGraphicsAsNvidiasProgramsDo) {
  SimFixture sim(
      "gpus:\n  - {profile: RTX-PRO-6000, mig: [1g.24gb, 1g.24gb+me, 1g.24gb+gfx, 1g.24gb-me]}\n"
      "  - {profile: RTX-PRO-6000, mig: [2g.48gb+gfx, 2g.48gb-me]}\n"
      "  - {profile: RTX-PRO-6000, mig: [1g.24gb+me.all, 2g.48gb]}\n"
      "  - {profile: RTX-PRO-6000, mig: [4g.96gb+gfx]}\n");
  const Inventory node = scan(sim);
  ASSERT_THAT(node.gpus, SizeIs(4));
  EXPECT_THAT(profiles_of(node.gpus[0]), UnorderedElementsAre("1g.24gb", "1g.24gb+me", "1g.24gb+gfx", "1g.24gb-me"));
  EXPECT_THAT(profiles_of(node.gpus[1]), UnorderedElementsAre("2g.48gb+gfx", "2g.48gb-me"));
  EXPECT_THAT(profiles_of(node.gpus[2]), UnorderedElementsAre("1g.24gb+me.all", "2g.48gb"));
  EXPECT_THAT(profiles_of(node.gpus[3]), ElementsAre("4g.96gb+gfx"));
}

// NVIDIA's table of slices ends before profile 17, so that a GPU that offers it is refused as a whole there.
// Promise: driver/mig: A new profile number is a profile like the others.
TEST(MigNames, TheNewestProfileNumberIsAProfileLikeOthers) {
  SimFixture sim("driver: 595.10\ngpus:\n  - {profile: RTX-PRO-6000, mig: [1g.24gb]}\n");
  sim.node().update_gpu(0, [](sim::GpuState& state) {
    sim::GiProfile& profile = state.profile.mig.profiles[state.profile.mig.profile_count++];
    profile = *sim::gi_profile_by_name(state.profile, "1g.24gb+gfx");
    profile.enum_value = 17;
    profile.id = 99;
    profile.name = "3g.72gb+gfx";
    profile.slices = 3;
    profile.memory_mib = 72960;
    profile.placement_size = 9;
    profile.placement_count = 1;
    profile.placement_starts[0] = 3;
    const auto slot = sim::create_gi(state, 99, std::nullopt);
    if (slot) (void)sim::create_ci(state, *slot, 2, std::nullopt);
  });
  EXPECT_THAT(profiles_of(scan(sim).gpus.at(0)), UnorderedElementsAre("1g.24gb", "3g.72gb+gfx"));
}

// Promise: driver/mig: A part of a GPU instance is named after both.
TEST(MigNames, APartOfAGpuInstanceIsNamedAfterBoth) {
  SimFixture sim("gpus:\n  - {profile: H200, mig: []}\n");
  sim.node().update_gpu(0, [](sim::GpuState& state) {
    const auto slot = sim::create_gi(state, 9, std::nullopt);
    if (!slot) return;
    (void)sim::create_ci(state, *slot, 1, std::nullopt);
    (void)sim::create_ci(state, *slot, 0, 2);
  });
  const Inventory node = scan(sim);
  ASSERT_THAT(profiles_of(node.gpus.at(0)), ElementsAre("2c.3g.71gb", "1c.3g.71gb"));
  const auto& mig = node.gpus[0].mig_devices[1];
  EXPECT_EQ(mig.gi_slices, 3u);
  EXPECT_EQ(mig.ci_slices, 1u);
  EXPECT_EQ(mig.nominal_memory, mib(71424));
}

// Promise: driver/mig: Capability nodes come from the driver's table, by the GPU's minor number.
TEST(MigNodes, ComeFromTheDriversTableByTheMinorNumberOfTheGpu) {
  SimFixture sim("gpus:\n  - {profile: H200, minor: 1, mig: [3g.71gb, 1g.18gb]}\n  - {profile: H200, minor: 0}\n");
  std::string table = "config 1\nmonitor 2\n";
  for (int gpu = 0, n = 3; gpu < 2; ++gpu) {
    for (int gi = 0; gi < 15; ++gi) {
      const std::string name = "gpu" + std::to_string(gpu) + "/gi" + std::to_string(gi);
      table += name + "/access " + std::to_string(n++) + "\n";
      for (int ci = 0; ci < 8; ++ci)
        table += name + "/ci" + std::to_string(ci) + "/access " + std::to_string(n++) + "\n";
    }
  }
  sim.write(kTable, table);
  const Inventory node = scan(sim);
  ASSERT_THAT(node.gpus.at(0).mig_devices, SizeIs(2));
  for (const auto& mig : node.gpus[0].mig_devices) {
    EXPECT_EQ(mig.gi_cap, 3 + 135 + 9 * mig.gpu_instance) << mig.profile;
    EXPECT_EQ(mig.ci_cap, 4 + 135 + 9 * mig.gpu_instance + mig.compute_instance) << mig.profile;
  }
  EXPECT_THAT(node.doubts, IsEmpty());
}

// Promise: driver/mig: A MIG device without a line in that table stays and the gap is reported.
TEST(MigNodes, WithoutATableOrALineOfItTheDeviceStaysAndTheDoubtIsSaid) {
  SimFixture sim("gpus:\n  - {profile: H200, mig: [1g.18gb]}\n");
  Inventory node = scan(sim);
  ASSERT_THAT(node.gpus.at(0).mig_devices, SizeIs(1));
  EXPECT_EQ(node.gpus[0].mig_devices[0].gi_cap, std::nullopt);
  EXPECT_THAT(node.doubts, ElementsAre(HasSubstr("it is not known which device nodes open MIG devices")));

  sim.write(kTable, "config 1\ngpu0/gi7/access 66\nrubbish\n");
  node = scan(sim);
  EXPECT_EQ(node.gpus[0].mig_devices[0].gi_cap, 66u);
  EXPECT_EQ(node.gpus[0].mig_devices[0].ci_cap, std::nullopt);
  EXPECT_THAT(node.doubts, ElementsAre(HasSubstr("line 3 is \"rubbish\""), HasSubstr("MIG device 0:0")));
}

TEST(MigNodes, OfANodeWithoutMigDevicesAreNotLookedFor) {
  SimFixture sim(kTwoH200);
  EXPECT_THAT(scan(sim).doubts, IsEmpty());
}

}  // namespace discovery_test
}  // namespace tranche::gpu::nvml
