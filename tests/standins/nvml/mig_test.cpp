#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <set>
#include <sstream>

#include "node/mig.h"
#include "node/tool.h"
#include "nvml_probe.h"

namespace tranche::sim::nvml {
namespace {

TEST(Mig, DevicesLookLikeTheirInstances) {
  const Session s("gpus:\n  - {profile: H200, mig: [1g.18gb, 3g.71gb, 2g.35gb]}\n  - {profile: H200}\n");
  const Device gpu = s.device(0);
  EXPECT_EQ(s.get<u32>("nvmlDeviceGetMaxMigDeviceCount", gpu), 7u);
  EXPECT_EQ(s.get<u32>("nvmlDeviceGetMaxMigDeviceCount", s.device(1)), 0u);
  const auto mig = s.get<Device>("nvmlDeviceGetMigDeviceHandleByIndex", gpu, u32{0});
  EXPECT_EQ(s.text("nvmlDeviceGetName", mig), "NVIDIA H200 MIG 3g.71gb");
  EXPECT_EQ(s.get<u32>("nvmlDeviceIsMigDeviceHandle", mig), 1u);
  EXPECT_EQ(s.get<Device>("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", mig), gpu);
  const auto attributes = s.get<AttributesV2>("nvmlDeviceGetAttributes_v2", mig);
  EXPECT_EQ(attributes.sms, 60u);
  EXPECT_EQ(attributes.gpu_instance_slices, 3u);
  EXPECT_EQ(attributes.memory_mib, 71424u);
  EXPECT_EQ(s.get<Memory>("nvmlDeviceGetMemoryInfo", mig).total, u64{71424} << 20);
  const std::string uuid = s.text("nvmlDeviceGetUUID", mig);
  EXPECT_TRUE(uuid.starts_with("MIG-"));
  EXPECT_EQ(s.get<Device>("nvmlDeviceGetHandleByUUID", uuid.c_str()), mig);
  const std::string old_name = "MIG-" + s.text("nvmlDeviceGetUUID", gpu) + "/" +
                               std::to_string(s.get<u32>("nvmlDeviceGetGpuInstanceId", mig)) + "/0";
  EXPECT_EQ(s.get<Device>("nvmlDeviceGetHandleByUUID", old_name.c_str()), mig);
  Device gap = nullptr;
  EXPECT_EQ(s.nvml("nvmlDeviceGetMigDeviceHandleByIndex", gpu, u32{3}, &gap), kNotFound);
  u32 value = 0;
  EXPECT_EQ(s.nvml("nvmlDeviceGetComputeMode", gpu, &value), kNotSupported) << "each MIG device has its own";
  EXPECT_EQ(s.nvml("nvmlDeviceSetComputeMode", mig, u32{3}), kSuccess);
  EXPECT_EQ(s.get<u32>("nvmlDeviceGetComputeMode", mig), 3u);
  Utilization rates{};
  EXPECT_EQ(s.nvml("nvmlDeviceGetUtilizationRates", gpu, &rates), kNotSupported);
}

TEST(Mig, InstancesAreMadeAndUnmadeByTheRules) {
  const Session s(kFourH200);
  const Device gpu = s.device(0);
  GpuInstance gi = nullptr;
  EXPECT_EQ(s.nvml("nvmlDeviceCreateGpuInstance", gpu, u32{9}, &gi), kNotSupported) << "MIG is off";
  Return activation = kUnknown;
  ASSERT_EQ(s.nvml("nvmlDeviceSetMigMode", gpu, u32{1}, &activation), kSuccess);
  EXPECT_EQ(activation, kSuccess) << "no reset needed since Hopper";
  ASSERT_EQ(s.nvml("nvmlDeviceCreateGpuInstance", gpu, u32{9}, &gi), kSuccess);
  EXPECT_EQ(s.get<u32>("nvmlDeviceGetGpuInstanceRemainingCapacity", gpu, u32{19}), 4u);
  EXPECT_EQ(s.get<u32>("nvmlDeviceGetGpuInstanceRemainingCapacity", gpu, u32{0}), 0u);
  GpuInstance other = nullptr;
  EXPECT_EQ(s.nvml("nvmlDeviceCreateGpuInstance", gpu, u32{0}, &other), kInsufficientResources);
  EXPECT_EQ(s.get<GpuInstanceInfo>("nvmlGpuInstanceGetInfo", gi).placement.start, 4u);
  Placement place{0, 4};
  EXPECT_EQ(s.nvml("nvmlDeviceCreateGpuInstanceWithPlacement", gpu, u32{9}, &place, &other), kSuccess);
  EXPECT_EQ(s.get<GpuInstanceInfo>("nvmlGpuInstanceGetInfo", other).placement.start, 0u);
  ComputeInstance ci = nullptr;
  ASSERT_EQ(s.nvml("nvmlGpuInstanceCreateComputeInstance", gi, u32{2}, &ci), kSuccess);
  EXPECT_EQ(s.get<ComputeInstanceInfoV2>("nvmlComputeInstanceGetInfo_v2", ci).placement.size, 3u);
  EXPECT_EQ(s.nvml("nvmlGpuInstanceDestroy", gi), kInUse);
  EXPECT_EQ(s.nvml("nvmlDeviceSetMigMode", gpu, u32{0}, &activation), kSuccess);
  EXPECT_EQ(activation, kInUse);
  EXPECT_EQ(s.nvml("nvmlComputeInstanceDestroy", ci), kSuccess);
  EXPECT_EQ(s.nvml("nvmlComputeInstanceDestroy", ci), kInvalidArgument) << "its handle died with it";
  EXPECT_EQ(s.nvml("nvmlGpuInstanceDestroy", gi), kSuccess);
  EXPECT_EQ(s.nvml("nvmlGpuInstanceDestroy", other), kSuccess);
}

TEST(Mig, OnAmpereTheModeWaitsForAReset) {
  const Session s("gpus: {profile: A100-SXM4-80GB, count: 1}\n");
  Return activation = kUnknown;
  ASSERT_EQ(s.nvml("nvmlDeviceSetMigMode", s.device(0), u32{1}, &activation), kSuccess);
  EXPECT_EQ(activation, kResetRequired);
  u32 current = 7, pending = 7;
  ASSERT_EQ(s.nvml("nvmlDeviceGetMigMode", s.device(0), &current, &pending), kSuccess);
  EXPECT_EQ(current, 0u);
  EXPECT_EQ(pending, 1u);
}

TEST(Mig, AfterAResetThePendingModeHolds) {
  const Session s("gpus: {profile: A100-SXM4-80GB, count: 1}\n");
  Return activation = kUnknown;
  ASSERT_EQ(s.nvml("nvmlDeviceSetMigMode", s.device(0), u32{1}, &activation), kSuccess);
  std::ostringstream out, err;
  EXPECT_EQ(run_nvidia_smi({"--gpu-reset", "-i", "0"}, out, err), 0) << err.str();
  u32 current = 7, pending = 7;
  ASSERT_EQ(s.nvml("nvmlDeviceGetMigMode", s.device(0), &current, &pending), kSuccess);
  EXPECT_EQ(current, 1u);
  EXPECT_EQ(run_tool({"process", "add", "0", "1", "1GiB"}, out, err), 0);
  EXPECT_EQ(run_nvidia_smi({"-r", "-i", "0"}, out, err), 19) << "a process is on it";
}

TEST(Mig, OnlyAmpereKeepsItsModeOverAReboot) {
  const Session s("gpus: [{profile: A100-SXM4-80GB, mig: [7g.80gb]}, {profile: H200, mig: [7g.141gb]}]\n");
  std::ostringstream out, err;
  ASSERT_EQ(run_tool({"reboot"}, out, err), 0) << err.str();
  u32 current = 7, pending = 7;
  ASSERT_EQ(s.nvml("nvmlDeviceGetMigMode", s.device(0), &current, &pending), kSuccess);
  EXPECT_EQ(current, 1u);
  ASSERT_EQ(s.nvml("nvmlDeviceGetMigMode", s.device(1), &current, &pending), kSuccess);
  EXPECT_EQ(current, 0u);
  GpuInstance gi = nullptr;
  EXPECT_EQ(s.nvml("nvmlDeviceGetGpuInstanceById", s.device(0), u32{0}, &gi), kNotFound);
}

TEST(Mig, ADestroyMayReportSuccessFalselyAndACallMayFailLater) {
  const Session s("gpus:\n  - {profile: H200, mig: [7g.141gb]}\n");
  const auto gi = s.get<GpuInstance>("nvmlDeviceGetGpuInstanceById", s.device(0), u32{0});
  const auto ci = s.get<ComputeInstance>("nvmlGpuInstanceGetComputeInstanceById", gi, u32{0});
  std::ostringstream out, err;
  ASSERT_EQ(run_tool({"lie", "nvmlComputeInstanceDestroy", "--times", "1"}, out, err), 0) << err.str();
  ASSERT_EQ(run_tool({"fail", "nvmlGpuInstanceDestroy", "999", "--skip", "1", "--times", "1"}, out, err), 0);
  EXPECT_EQ(s.nvml("nvmlComputeInstanceDestroy", ci), kSuccess);
  EXPECT_EQ(s.node->gpu_state(0).mig_lies, 1u);
  EXPECT_EQ(s.nvml("nvmlGpuInstanceDestroy", gi), kInUse) << "its compute instance is still there";
  EXPECT_EQ(s.nvml("nvmlComputeInstanceDestroy", ci), kSuccess);
  EXPECT_EQ(s.nvml("nvmlGpuInstanceDestroy", gi), kUnknown);
  EXPECT_EQ(s.nvml("nvmlGpuInstanceDestroy", gi), kSuccess);
}

TEST(Mig, CapabilityFilesFollowTheInstances) {
  const TestNode root("gpus: {profile: T4}\n");  // only for its folder
  const Session s("procRoot: " + root.dir() + "\ngpus:\n  - {profile: H200, minor: 1, mig: []}\n");
  GpuInstance gi = nullptr;
  ASSERT_EQ(s.nvml("nvmlDeviceCreateGpuInstance", s.device(0), u32{9}, &gi), kSuccess);
  const auto id = s.get<GpuInstanceInfo>("nvmlGpuInstanceGetInfo", gi).id;
  const std::string path = root.dir() + "/proc/driver/nvidia/capabilities/gpu1/mig/gi" + std::to_string(id) + "/access";
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_EQ(text.str(),
            "DeviceFileMinor: " + std::to_string(3 + 135 + 9 * id) + "\nDeviceFileMode: 292\nDeviceFileModify: 1\n");
  ASSERT_EQ(s.nvml("nvmlGpuInstanceDestroy", gi), kSuccess);
  EXPECT_FALSE(std::ifstream(path).good());
}

TEST(Mig, IsNotSupportedWhereTheModelHasNone) {
  const Session s("gpus: {profile: T4}\n");
  u32 current = 7, pending = 7;
  EXPECT_EQ(s.nvml("nvmlDeviceGetMigMode", s.device(0), &current, &pending), kNotSupported);
  GiProfileInfo info{};
  EXPECT_EQ(s.nvml("nvmlDeviceGetGpuInstanceProfileInfo", s.device(0), u32{0}, &info), kNotSupported);
}

TEST(Mig, ComputeInstancesOfAWholeA100) {
  const Session s("gpus:\n  - {profile: A100-SXM4-80GB, mig: [7g.80gb]}\n");
  const auto gi = s.get<GpuInstance>("nvmlDeviceGetGpuInstanceById", s.device(0), u32{0});
  struct Row {
    u32 id, count, sms;
  };
  for (const Row row : {Row{0, 7, 14}, Row{1, 3, 28}, Row{2, 2, 42}, Row{3, 1, 56}, Row{4, 1, 98}}) {
    const auto info = s.get<CiProfileInfo>("nvmlGpuInstanceGetComputeInstanceProfileInfo", gi, row.id, u32{0});
    EXPECT_EQ(info.max_count, row.count) << row.id;
    EXPECT_EQ(info.sms, row.sms) << row.id;
  }
  CiProfileInfo none{};
  EXPECT_EQ(s.nvml("nvmlGpuInstanceGetComputeInstanceProfileInfo", gi, u32{5}, u32{0}, &none), kNotSupported);
  EXPECT_EQ(s.nvml("nvmlGpuInstanceGetComputeInstanceProfileInfo", gi, u32{9}, u32{0}, &none), kInvalidArgument);
}

// Clients compute profile names from two numbers; a profile whose numbers yield a different name would mislead them.
TEST(Mig, NamesFollowFromTheMemoryNumbersOfEveryProfile) {
  const auto names = profile_names(profile_directory());
  ASSERT_GE(names.size(), 8u);
  std::set<std::string> seen;
  for (const auto& name : names) {
    const TestNode place("gpus: {profile: " + name + ", count: 1}\n");
    const auto node = Node::open(place.dir());
    ASSERT_TRUE(node) << node.error();
    const GpuProfile profile = (*node)->gpu_state(0).profile;
    EXPECT_GT(profile.sm_count, 0u) << name;
    EXPECT_TRUE(seen.insert(profile.name.str()).second) << name;
    for (u32 i = 0; i < profile.mig.profile_count; ++i) {
      const GiProfile& gi = profile.mig.profiles[i];
      const double total = static_cast<double>(profile.memory_total);
      const double eighths = std::ceil(8.0 * gi.memory_mib * 1048576.0 / total);
      const double gb = std::round(eighths / 8 * std::ceil(total / (1 << 30)));
      const std::string expected = std::to_string(gi.slices) + "g." + std::to_string(static_cast<int>(gb)) + "gb";
      EXPECT_TRUE(gi.name.view().starts_with(expected)) << name << " " << gi.name.view() << " should be " << expected;
    }
  }
}

}  // namespace
}  // namespace tranche::sim::nvml
