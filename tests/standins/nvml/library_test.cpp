// The rules of the interface: life cycle, handles, buffers, names. What the calls answer is in the product's own tests
// on this library: src/gpu/driver, src/mig.
#include <gmock/gmock.h>

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
