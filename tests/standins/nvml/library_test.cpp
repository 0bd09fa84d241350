// The rules of the interface: life cycle, handles, buffers, versions, rights, faults.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "node/mig.h"
#include "nvml_probe.h"

namespace tranche::sim::nvml {
namespace {

TEST(Library, AnswersUninitializedBeforeInitAndAfterTheLastShutdown) {
  const TestNode place(kFourH200);
  setenv(kNodeVariable, place.dir().c_str(), 1);
  const Library nvml;
  u32 count = 0;
  EXPECT_EQ(nvml("nvmlDeviceGetCount_v2", &count), kUninitialized);
  EXPECT_EQ(nvml("nvmlInit_v2"), kSuccess);
  EXPECT_EQ(nvml("nvmlInit_v2"), kSuccess);
  EXPECT_EQ(nvml("nvmlShutdown"), kSuccess);
  EXPECT_EQ(nvml("nvmlDeviceGetCount_v2", &count), kSuccess) << "one init is left";
  EXPECT_EQ(nvml("nvmlShutdown"), kSuccess);
  EXPECT_EQ(nvml("nvmlDeviceGetCount_v2", &count), kUninitialized);
  EXPECT_EQ(nvml("nvmlDeviceGetFanSpeed"), kUninitialized);
  EXPECT_EQ(nvml("nvmlShutdown"), kSuccess) << "one too many is no error";
  unsetenv(kNodeVariable);
}

TEST(Library, SaysDriverNotLoadedUntilTheDriverAppears) {
  const TestNode place("driverPresent: false\ngpus: {profile: T4}\n");
  setenv(kNodeVariable, place.dir().c_str(), 1);
  const Library nvml;
  EXPECT_EQ(nvml("nvmlInit_v2"), kDriverNotLoaded);
  place.open()->set_driver_present(true);
  EXPECT_EQ(nvml("nvmlInit_v2"), kSuccess);
  EXPECT_EQ(nvml("nvmlShutdown"), kSuccess);
  setenv(kNodeVariable, "/nonexistent", 1);
  EXPECT_EQ(nvml("nvmlInit_v2"), kDriverNotLoaded);
  unsetenv(kNodeVariable);
}

TEST(Library, RefusesForeignHandlesAndMissingOutputs) {
  const Session s(kFourH200);
  u32 value = 0;
  const Device nothing = nullptr;
  EXPECT_EQ(s.nvml("nvmlDeviceGetIndex", nothing, &value), kInvalidArgument);
  EXPECT_EQ(s.nvml("nvmlDeviceGetIndex", reinterpret_cast<Device>(&value), &value), kInvalidArgument);
  EXPECT_EQ(
      s.nvml("nvmlDeviceGetIndex", reinterpret_cast<Device>(reinterpret_cast<const char*>(s.device(0)) + 1), &value),
      kInvalidArgument);
  u32* nowhere = nullptr;
  EXPECT_EQ(s.nvml("nvmlDeviceGetIndex", s.device(0), nowhere), kInvalidArgument);
  Device device = nullptr;
  EXPECT_EQ(s.nvml("nvmlDeviceGetHandleByIndex_v2", u32{4}, &device), kInvalidArgument) << "past the end";
  EXPECT_EQ(s.device(2), s.device(2)) << "stable";
}

TEST(Library, KeepsToTheSizeOfTextBuffers) {
  const Session s(kFourH200);
  char buffer[64];
  EXPECT_EQ(s.nvml("nvmlDeviceGetUUID", s.device(0), &buffer[0], u32{40}), kInsufficientSize);
  EXPECT_EQ(s.nvml("nvmlDeviceGetUUID", s.device(0), &buffer[0], u32{41}), kSuccess);
  EXPECT_EQ(strlen(buffer), 40u);
}

TEST(Library, WritesNothingForAnUnknownVersion) {
  const Session s(kFourH200);
  MemoryV2 memory{.version = 2, .total = 77, .reserved = 0, .free = 0, .used = 0};
  EXPECT_EQ(s.nvml("nvmlDeviceGetMemoryInfo_v2", s.device(0), &memory), kArgumentVersionMismatch);
  EXPECT_EQ(memory.total, 77u);
  FabricInfoV3 fabric{};
  fabric.version = 0x03000028;
  EXPECT_EQ(s.nvml("nvmlDeviceGetGpuFabricInfoV", s.device(0), &fabric), kSuccess);
  EXPECT_EQ(fabric.state, 3);
  EXPECT_EQ(fabric.health_summary, 1);
  unsigned char bytes[64];
  memset(bytes, 0xAA, sizeof(bytes));
  const u32 second = 0x02000024;
  memcpy(bytes, &second, sizeof(second));
  EXPECT_EQ(s.nvml("nvmlDeviceGetGpuFabricInfoV", s.device(0), &bytes[0]), kSuccess);
  EXPECT_EQ(bytes[36], 0xAA) << "version 2 ends here";
  GiProfileInfoV3 third{};
  third.version = 0x03000098;
  EXPECT_EQ(s.nvml("nvmlDeviceGetGpuInstanceProfileInfoV", s.device(0), u32{0}, &third), kSuccess);
  EXPECT_EQ(third.memory_mib, 16384u);
  EXPECT_STREQ(third.name, "MIG 1g.18gb");
}

TEST(Library, FindsDevicesByUuidAndBusAddress) {
  const Session s(kFourH200);
  const std::string uuid = s.text("nvmlDeviceGetUUID", s.device(2));
  EXPECT_EQ(s.get<Device>("nvmlDeviceGetHandleByUUID", uuid.c_str()), s.device(2));
  for (const char* address : {"00000000:00:08.0", "0000:00:08.0", "0:0:8", "00:08.0"}) {
    EXPECT_EQ(s.get<Device>("nvmlDeviceGetHandleByPciBusId_v2", address), s.device(2)) << address;
  }
  Device none = nullptr;
  const char* const unknown = "GPU-00000000-0000-0000-0000-000000000000";
  EXPECT_EQ(s.nvml("nvmlDeviceGetHandleByUUID", unknown, &none), kNotFound);
  const char* const garbage = "over there";
  EXPECT_EQ(s.nvml("nvmlDeviceGetHandleByPciBusId_v2", garbage, &none), kInvalidArgument);
  const char* const empty_slot = "0000:00:1f.0";
  EXPECT_EQ(s.nvml("nvmlDeviceGetHandleByPciBusId_v2", empty_slot, &none), kNotFound);
}

TEST(Library, ListsProcessesWithTheStrideOfEachVersion) {
  const Session s(kFourH200);
  s.node->add_made_up_process({.pid = 100, .gpu = 0, .kind = ProcessKind::kMpsServer, .bytes = 66 << 20});
  s.node->add_made_up_process({.pid = 200, .gpu = 0, .kind = ProcessKind::kMpsClient, .bytes = 5});
  s.node->add_made_up_process({.pid = 300, .gpu = 0, .kind = ProcessKind::kMpsClient, .bytes = 6});
  s.node->add_made_up_process({.pid = 400, .gpu = 0, .kind = ProcessKind::kGraphics, .bytes = 7});
  u32 count = 0;
  ProcessInfoV2* nowhere = nullptr;
  EXPECT_EQ(s.nvml("nvmlDeviceGetComputeRunningProcesses_v3", s.device(0), &count, nowhere), kInsufficientSize);
  EXPECT_EQ(count, 3u);
  count = 2;
  ProcessInfoV2 wide[4] = {};
  EXPECT_EQ(s.nvml("nvmlDeviceGetComputeRunningProcesses_v3", s.device(0), &count, &wide[0]), kInsufficientSize);
  EXPECT_EQ(wide[0].pid, 0u) << "nothing is written when it does not fit";
  count = 4;
  EXPECT_EQ(s.nvml("nvmlDeviceGetComputeRunningProcesses_v3", s.device(0), &count, &wide[0]), kSuccess);
  EXPECT_EQ(count, 3u);
  EXPECT_EQ(wide[2].pid, 300u);
  EXPECT_EQ(wide[2].used_gpu_memory, 6u);
  EXPECT_EQ(wide[2].gpu_instance_id, 0xffffffffu);
  ProcessInfoV1 narrow[4] = {};
  count = 4;
  EXPECT_EQ(s.nvml("nvmlDeviceGetMPSComputeRunningProcesses", s.device(0), &count, &narrow[0]), kSuccess);
  EXPECT_EQ(count, 2u);
  EXPECT_EQ(narrow[1].pid, 300u);
  ProcessDetail details[4] = {};
  ProcessDetailList list{.version = 0x01000018, .mode = 3, .entry_count = 4, .entries = details};
  EXPECT_EQ(s.nvml("nvmlDeviceGetRunningProcessDetailList", s.device(0), &list), kSuccess);
  EXPECT_EQ(list.entry_count, 4u);
  const auto memory = s.get<Memory>("nvmlDeviceGetMemoryInfo", s.device(0));
  EXPECT_EQ(memory.used, 644939776u + (66u << 20) + 18u);
  EXPECT_EQ(s.get<u32>("nvmlDeviceGetComputeRunningProcesses_v3", s.device(1)), 0u);
}

TEST(Library, SetsComputeModeForEveryProcessToSee) {
  const Session s(kFourH200);
  EXPECT_EQ(s.nvml("nvmlDeviceSetComputeMode", s.device(1), u32{3}), kSuccess);
  EXPECT_EQ(s.get<u32>("nvmlDeviceGetComputeMode", s.device(1)), 3u);
  EXPECT_EQ(s.node->compute_mode(1), 3);
  EXPECT_EQ(s.node->compute_mode(0), 0);
  EXPECT_EQ(s.nvml("nvmlDeviceSetComputeMode", s.device(1), u32{1}), kNotSupported) << "exclusive thread is history";
  EXPECT_EQ(s.nvml("nvmlDeviceSetComputeMode", s.device(1), u32{4}), kInvalidArgument);
}

TEST(Library, AsksForRootWhereTheNodeSaysSo) {
  const Session s("requireRoot: true\ngpus: {profile: T4}\n");
  EXPECT_EQ(s.nvml("nvmlDeviceSetComputeMode", s.device(0), u32{3}), geteuid() == 0 ? kSuccess : kNoPermission);
}

TEST(Library, AnswersLostForALostGpuAndSpoilsUuidSearch) {
  const Session s(kFourH200);
  const Device lost = s.device(1);
  const std::string other = s.text("nvmlDeviceGetUUID", s.device(0));
  s.node->update_gpu(1, [](GpuState& gpu) { gpu.lost = 1; });
  u32 value = 0;
  Device device = nullptr;
  const char* const uuid = other.c_str();
  EXPECT_EQ(s.nvml("nvmlDeviceGetMinorNumber", lost, &value), kGpuIsLost);
  EXPECT_EQ(s.nvml("nvmlDeviceGetHandleByIndex_v2", u32{1}, &device), kGpuIsLost);
  EXPECT_EQ(s.nvml("nvmlDeviceGetHandleByUUID", uuid, &device), kGpuIsLost);
  EXPECT_EQ(s.get<u32>("nvmlDeviceGetCount_v2"), 4u);
  EXPECT_EQ(s.get<u32>("nvmlDeviceGetMinorNumber", s.device(0)), 0u);
  s.node->update_gpu(1, [](GpuState& gpu) { gpu.lost = 0; });
  EXPECT_EQ(s.nvml("nvmlDeviceGetMinorNumber", lost, &value), kSuccess);
}

TEST(Library, FailsTheCallsItIsAskedTo) {
  const Session s(kFourH200);
  Fault fault{.call = {}, .gpu = 2, .kind = FaultKind::kFail, .value = kUnknown, .skip = 0, .times = 0};
  fault.call = "nvmlDeviceGetMemoryInfo";
  s.node->add_fault(fault);
  Memory memory{};
  EXPECT_EQ(s.nvml("nvmlDeviceGetMemoryInfo", s.device(2), &memory), kUnknown);
  EXPECT_EQ(s.nvml("nvmlDeviceGetMemoryInfo", s.device(1), &memory), kSuccess);
  s.node->clear_faults();
  EXPECT_EQ(s.nvml("nvmlDeviceGetMemoryInfo", s.device(2), &memory), kSuccess);
  fault.call = "nvmlInit";
  fault.gpu = -1;
  fault.value = 18;
  s.node->add_fault(fault);
  EXPECT_EQ(static_cast<int>(s.nvml("nvmlInit_v2")), 18);
  s.node->clear_faults();
}

TEST(Library, HasNoLinksWhereTheModelHasNone) {
  const Session s("gpus: {profile: L40S, count: 2}\n");
  u32 state = 0;
  EXPECT_EQ(s.nvml("nvmlDeviceGetNvLinkState", s.device(0), u32{0}, &state), kNotSupported) << "has no NVLink";
}

TEST(Library, JoinsTheGpusOfADgxThroughSwitches) {
  const Session dgx("gpus: {profile: H200, count: 8}\ntopology: dgx-h200\n");
  EXPECT_EQ(dgx.get<u32>("nvmlDeviceGetTopologyCommonAncestor", dgx.device(0), dgx.device(3)), 40u);
  EXPECT_EQ(dgx.get<u32>("nvmlDeviceGetTopologyCommonAncestor", dgx.device(0), dgx.device(4)), 50u);
  EXPECT_EQ(dgx.get<u32>("nvmlDeviceGetP2PStatus", dgx.device(0), dgx.device(4), u32{2}), 0u);
  u32 near = 0;
  Device* nowhere = nullptr;
  EXPECT_EQ(dgx.nvml("nvmlDeviceGetTopologyNearestGpus", dgx.device(0), u32{40}, &near, nowhere), kSuccess);
  EXPECT_EQ(near, 3u);
}

TEST(Library, JoinsEightV100InACubeMesh) {
  const Session cube("gpus: {profile: V100, count: 8}\n");
  int links[8] = {};
  for (u32 link = 0; link < 6; ++link) {
    const auto pci = cube.get<PciInfo>("nvmlDeviceGetNvLinkRemotePciInfo_v2", cube.device(0), link);
    const char* const id = pci.bus_id;
    ++links[cube.get<u32>("nvmlDeviceGetIndex", cube.get<Device>("nvmlDeviceGetHandleByPciBusId_v2", id))];
  }
  EXPECT_THAT(links, testing::ElementsAre(0, 1, 1, 2, 2, 0, 0, 0));
}

TEST(Library, ExportsEveryNameOfTheInterfaceAndNothingElse) {
  const Library nvml;
  for (const char* name :
       {"nvmlInit", "nvmlInit_v2", "nvmlInitWithFlags", "nvmlDeviceGetCount", "nvmlDeviceGetPciInfo_v2",
        "nvmlEventSetWait", "nvmlDeviceGetAttributes", "nvmlDeviceGetAttributes_v2", "nvmlComputeInstanceGetInfo_v2",
        "nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlGetBlacklistDeviceCount", "nvmlDeviceGetDriverModel_v2",
        "nvmlDeviceGetCurrentClocksThrottleReasons", "nvmlVgpuTypeGetName", "nvmlUnitGetUnitInfo"}) {
    EXPECT_TRUE(nvml.has(name)) << name;
  }
  EXPECT_FALSE(nvml.has("nvmlInternalGetExportTable"));
  EXPECT_FALSE(nvml.has("_ZN7tranche3sim4Node4openERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"));
}

}  // namespace
}  // namespace tranche::sim::nvml
