#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <sstream>

#include "node/tool.h"
#include "nvml_probe.h"

namespace tranche::sim::nvml {
namespace {

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
