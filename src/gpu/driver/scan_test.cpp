// Scanning, use and compute mode against the stand-in driver library, opened the way a real one is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "gpu/driver/driver.h"
#include "gpu/driver/sim_fixture.h"

namespace tranche::gpu::nvml {
namespace scan_test {

using testing::HasSubstr;
using testing::IsEmpty;

Inventory scan(const SimFixture& sim) {
  const auto nvml = Driver::open(sim.settings());
  if (!nvml) {
    ADD_FAILURE() << to_string(nvml.error());
    return {};
  }
  const auto node = (*nvml)->scan();
  if (!node) {
    ADD_FAILURE() << to_string(node.error());
    return {};
  }
  return *node;
}

// Promise: driver/scan: Every field of four H200 in a virtual machine is read.
TEST(NvmlScan, ReadsEveryFieldOfFourH200InAVirtualMachine) {
  SimFixture sim("gpus: {profile: H200, count: 4}\ntopology: vm\n");
  sim.write("/sys/bus/pci/devices/0000:00:06.0/numa_node", "-1\n");
  sim.write("/sys/bus/pci/devices/0000:00:06.0/class", "0x030200\n");
  sim.write("/sys/bus/pci/devices/0000:00:07.0/numa_node", "1\n");
  const Inventory node = scan(sim);
  EXPECT_EQ(node.driver_version, "580.159.04");
  EXPECT_EQ(node.cuda_driver_version, 13000);
  EXPECT_THAT(node.unreadable, IsEmpty());
  ASSERT_EQ(node.gpus.size(), 4u);
  const Gpu& gpu = node.gpus[0];
  EXPECT_EQ(gpu.uuid, sim.node().gpus()[0].uuid);
  EXPECT_EQ(gpu.index, 0u);
  EXPECT_EQ(gpu.minor, 0u);
  EXPECT_EQ(gpu.name, "NVIDIA H200");
  EXPECT_EQ(gpu.pci_bus_id, "00000000:00:06.0");
  EXPECT_EQ(gpu.pci_class, 0x030200u);
  EXPECT_EQ(gpu.numa_node, std::nullopt);
  EXPECT_EQ(gpu.memory, Bytes{150754820096});
  EXPECT_EQ(gpu.compute_capability, (ComputeCapability{9, 0}));
  EXPECT_EQ(gpu.sm_count, 132u);
  EXPECT_TRUE(gpu.mig_capable);
  EXPECT_FALSE(gpu.mig_enabled);
  EXPECT_THAT(gpu.mig_devices, IsEmpty());
  EXPECT_EQ(gpu.compute_mode, ComputeMode::kDefault);
  EXPECT_EQ(node.gpus[1].numa_node, 1u);
  EXPECT_EQ(node.gpus[3].pci_bus_id, "00000000:00:09.0");
  ASSERT_EQ(node.links.size(), 6u) << "every pair once";
  for (const GpuLink& link : node.links) {
    EXPECT_LT(link.a, link.b);
    EXPECT_EQ(link.pcie_level, 30);
    EXPECT_EQ(link.nvlinks, 0u) << "links end at a switch that the machine hides";
  }
}

TEST(NvmlScan, KnowsOtherGenerations) {
  SimFixture t4("gpus: {profile: T4, count: 1}\n");
  const Inventory turing = scan(t4);
  ASSERT_EQ(turing.gpus.size(), 1u);
  EXPECT_EQ(turing.gpus[0].name, "Tesla T4");
  EXPECT_EQ(turing.gpus[0].sm_count, 40u);
  EXPECT_EQ(turing.gpus[0].compute_capability, (ComputeCapability{7, 5}));
  EXPECT_FALSE(turing.gpus[0].mig_capable);
  EXPECT_THAT(turing.links, IsEmpty());

  SimFixture a100("gpus: {profile: A100-SXM4-80GB, count: 8}\ntopology: dgx-a100\n");
  const Inventory ampere = scan(a100);
  ASSERT_EQ(ampere.gpus.size(), 8u);
  EXPECT_EQ(ampere.gpus[7].sm_count, 108u);
  ASSERT_EQ(ampere.links.size(), 28u);
  EXPECT_EQ(ampere.links[0].pcie_level, 20) << "0 and 1 share switches";
  EXPECT_EQ(ampere.links[1].pcie_level, 50) << "0 and 2 do not";
}

// Promise: driver/scan: Links that run straight to a GPU are counted, links to a switch are not.
TEST(NvmlScan, CountsLinksThatRunStraightToAnotherGpu) {
  SimFixture sim("gpus: {profile: A100-PCIE-40GB, count: 4}\ntopology: pcie\n");
  const Inventory node = scan(sim);
  ASSERT_EQ(node.links.size(), 6u);
  for (const GpuLink& link : node.links) {
    const bool bridged = (link.a == 0 && link.b == 1) || (link.a == 2 && link.b == 3);
    EXPECT_EQ(link.nvlinks, bridged ? 12u : 0u) << link.a << " " << link.b;
  }
}

// Promise: driver/scan: MIG devices are read across gaps.
TEST(NvmlScan, ReadsMigDevicesAcrossGaps) {
  SimFixture sim(
      "gpus:\n  - {profile: A100-SXM4-80GB, mig: [3g.40gb, 2g.20gb, 1g.10gb]}\n  - {profile: A100-SXM4-80GB}\n");
  Inventory node = scan(sim);
  ASSERT_EQ(node.gpus.size(), 2u);
  ASSERT_TRUE(node.gpus[0].mig_enabled);
  ASSERT_EQ(node.gpus[0].mig_devices.size(), 3u);
  const MigDevice& first = node.gpus[0].mig_devices[0];
  EXPECT_EQ(first.profile, "3g.40gb");
  EXPECT_THAT(first.uuid, HasSubstr("MIG-"));
  EXPECT_EQ(first.sm_count, 42u);
  EXPECT_EQ(first.gi_slices, 3u);
  EXPECT_EQ(first.ci_slices, 3u);
  EXPECT_GT(first.memory, gib(38));
  EXPECT_FALSE(node.gpus[1].mig_enabled);

  const std::uint32_t gone = node.gpus[0].mig_devices[1].gpu_instance;
  sim.node().update_gpu(0, [gone](sim::GpuState& state) {
    for (sim::GpuInstanceState& instance : state.instances) {
      if (instance.used != 0 && instance.id == gone) instance = {};
    }
  });
  node = scan(sim);
  ASSERT_EQ(node.gpus[0].mig_devices.size(), 2u);
  EXPECT_EQ(node.gpus[0].mig_devices[0].slot, 0u);
  EXPECT_EQ(node.gpus[0].mig_devices[1].slot, 2u) << "the slot between stays empty";
  EXPECT_EQ(node.gpus[0].mig_devices[1].profile, "1g.10gb");
}

TEST(NvmlScan, NamesMediaExtensionsOfAProfile) {
  SimFixture sim("gpus:\n  - {profile: H200, mig: [1g.18gb+me, 1g.35gb]}\n");
  const Inventory node = scan(sim);
  ASSERT_EQ(node.gpus.size(), 1u);
  ASSERT_EQ(node.gpus[0].mig_devices.size(), 2u);
  std::vector<std::string> profiles;
  for (const auto& mig : node.gpus[0].mig_devices) profiles.push_back(mig.profile);
  std::ranges::sort(profiles);
  EXPECT_THAT(profiles, testing::ElementsAre("1g.18gb+me", "1g.35gb"));
  // Without permission on the instances, the driver's own name of the device has the same information.
  sim.fail_call("nvmlDeviceGetGpuInstanceById", -1, 4);
  const Inventory again = scan(sim);
  ASSERT_EQ(again.gpus.size(), 1u);
  EXPECT_EQ(again.gpus[0].mig_devices, node.gpus[0].mig_devices);
}

// Promise: driver/scan: A lost GPU does not hide the others.
TEST(NvmlScan, ALostGpuDoesNotHideTheOthers) {
  SimFixture sim("gpus: {profile: H200, count: 3}\ntopology: vm\n");
  const auto nvml = Driver::open(sim.settings());
  ASSERT_TRUE(nvml) << to_string(nvml.error());
  ASSERT_TRUE((*nvml)->scan());
  sim.lose(1, true);
  const auto node = (*nvml)->scan();
  ASSERT_TRUE(node) << to_string(node.error());
  ASSERT_EQ(node->gpus.size(), 2u);
  EXPECT_EQ(node->gpus[0].index, 0u);
  EXPECT_EQ(node->gpus[1].index, 2u) << "the others keep their numbers";
  ASSERT_EQ(node->unreadable.size(), 1u);
  EXPECT_THAT(node->unreadable[0], HasSubstr("GPU 1 (" + sim.node().gpus()[1].uuid + ")"));
  EXPECT_THAT(node->unreadable[0], HasSubstr("reset the GPU"));
  ASSERT_EQ(node->links.size(), 1u);
  const auto use = (*nvml)->use();
  ASSERT_TRUE(use);
  EXPECT_EQ(use->size(), 2u);
}

TEST(NvmlScan, LeavesOutWhatTheDriverDoesNotSayAndKeepsTheGpu) {
  SimFixture sim("gpus: {profile: H200, count: 1}\n");
  for (const char* call : {"nvmlDeviceGetMemoryInfo", "nvmlDeviceGetNumGpuCores", "nvmlDeviceGetMigMode",
                           "nvmlSystemGetCudaDriverVersion_v2"}) {
    sim.fail_call(call, -1, 3);
  }
  const Inventory node = scan(sim);
  ASSERT_EQ(node.gpus.size(), 1u);
  EXPECT_EQ(node.gpus[0].memory, Bytes{0});
  EXPECT_EQ(node.gpus[0].sm_count, 0u);
  EXPECT_FALSE(node.gpus[0].mig_capable);
  EXPECT_EQ(node.cuda_driver_version, 0);
}

TEST(NvmlUse, ReportsProcessesAndWhichAreMpsClients) {
  SimFixture sim("gpus: {profile: H200, count: 2}\ntopology: vm\n");
  sim.node().add_made_up_process(
      {.pid = 4'000'001, .gpu = 0, .kind = sim::ProcessKind::kMpsServer, .bytes = 66u << 20});
  sim.node().add_made_up_process({.pid = 4'000'002, .gpu = 0, .kind = sim::ProcessKind::kMpsClient, .bytes = 1u << 30});
  sim.node().add_made_up_process({.pid = 4'000'003, .gpu = 1, .kind = sim::ProcessKind::kCompute, .bytes = 2u << 30});
  const auto nvml = Driver::open(sim.settings());
  ASSERT_TRUE(nvml);
  const auto use = (*nvml)->use();  // without an earlier scan
  ASSERT_TRUE(use) << to_string(use.error());
  ASSERT_EQ(use->size(), 2u);
  const GpuUse& first = use->at(0);
  EXPECT_EQ(first.uuid, sim.node().gpus()[0].uuid);
  EXPECT_EQ(first.used.value, sim.node().memory_used(0));
  EXPECT_NE(first.persistence, std::nullopt);
  ASSERT_EQ(first.processes.size(), 2u);
  EXPECT_EQ(first.processes[0].pid, 4'000'001u);
  EXPECT_FALSE(first.processes[0].mps_client);
  EXPECT_EQ(first.processes[1].pid, 4'000'002u);
  EXPECT_TRUE(first.processes[1].mps_client);
  EXPECT_EQ(first.processes[1].memory, gib(1)) << "counted once, though it is in both lists";
  ASSERT_EQ(use->at(1).processes.size(), 1u);
  EXPECT_FALSE(use->at(1).processes[0].mps_client);
}

TEST(NvmlUse, ListsMoreProcessesThanTheFirstBufferHolds) {
  SimFixture sim("gpus: {profile: H200, count: 1}\n");
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(sim.node().add_made_up_process(
        {.pid = 4'000'000 + i, .gpu = 0, .kind = sim::ProcessKind::kCompute, .bytes = 1u << 20}));
  }
  const auto nvml = Driver::open(sim.settings());
  ASSERT_TRUE(nvml);
  const auto use = (*nvml)->use();
  ASSERT_TRUE(use);
  EXPECT_EQ(use->at(0).processes.size(), 100u);
}

TEST(NvmlUse, SetsTheComputeModeAndReadsItBack) {
  SimFixture sim("gpus: {profile: H200, count: 2}\ntopology: vm\n");
  const auto nvml = Driver::open(sim.settings());
  ASSERT_TRUE(nvml);
  const std::string uuid = sim.node().gpus()[1].uuid;
  const Status set = (*nvml)->set_compute_mode(uuid, ComputeMode::kExclusiveProcess);
  ASSERT_TRUE(set) << to_string(set.error());
  EXPECT_EQ(sim.node().compute_mode(1), 3);
  EXPECT_EQ(sim.node().compute_mode(0), 0);
  const auto scanned = (*nvml)->scan();
  ASSERT_TRUE(scanned);
  EXPECT_EQ(scanned->gpus[1].compute_mode, ComputeMode::kExclusiveProcess);

  const Status nobody = (*nvml)->set_compute_mode("GPU-nobody", ComputeMode::kDefault);
  ASSERT_FALSE(nobody);
  EXPECT_EQ(nobody.error().kind, Kind::kNotFound);
  sim.fail_call("nvmlDeviceSetComputeMode", -1, 4);
  const Status denied = (*nvml)->set_compute_mode(uuid, ComputeMode::kDefault);
  ASSERT_FALSE(denied);
  EXPECT_EQ(denied.error().kind, Kind::kDenied);
  EXPECT_THAT(denied.error().what, HasSubstr("root"));
}

TEST(NvmlScan, AClassThatTheKernelDoesNotShowIsNotKnown) {
  SimFixture sim("gpus: {profile: H200, count: 1}\ntopology: vm\n");
  EXPECT_EQ(scan(sim).gpus.at(0).pci_class, 0u);
  sim.write("/sys/bus/pci/devices/0000:00:06.0/class", "0x030200\n");
  EXPECT_EQ(scan(sim).gpus.at(0).pci_class, 0x030200u);
}

// Promise: driver/library: A driver upgraded under the process is reported.
TEST(Library, SaysThatTheDriverWasUpgraded) {
  SimFixture sim("gpus: {profile: H200, count: 1}\n");
  sim.fail_call("nvmlInit_v2", -1, 18);
  const auto nvml = Driver::open(sim.settings());
  ASSERT_FALSE(nvml);
  EXPECT_EQ(nvml.error().kind, Kind::kConflict);
  EXPECT_THAT(nvml.error().what, HasSubstr("upgraded under us"));
  EXPECT_EQ(nvml.error().code, 18);
}

TEST(Library, IsTakenFromTheDriverRoot) {
  SimFixture sim("gpus: {profile: H200, count: 1}\n");
  const auto nvml = Driver::open(sim.settings());
  ASSERT_TRUE(nvml);
  EXPECT_TRUE(std::filesystem::equivalent((*nvml)->library_path(), sim.root() + "/usr/lib64/libnvidia-ml.so.1"))
      << (*nvml)->library_path();
}

}  // namespace scan_test
}  // namespace tranche::gpu::nvml
