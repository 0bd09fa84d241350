// From the discovered node to the advertised devices: platforms, display GPUs, MIG strategies.
#include <gmock/gmock.h>

#include "make.h"
#include "plan/plan.h"
#include "plan/select.h"
#include "plan/table.h"

namespace tranche::plan {
namespace discovered_test {

using config::Config;
using config::MigStrategy;
using gpu::Gpu;
using gpu::Inventory;
using gpu::Platform;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

struct MigSpec {
  std::string profile;
  std::uint32_t gi = 1;
  std::uint32_t ci = 1;
};

Gpu gpu_of(std::uint32_t index, const std::vector<MigSpec>& migs = {}) {
  Gpu gpu;
  gpu.uuid = "GPU-" + std::to_string(index);
  gpu.index = gpu.minor = index;
  gpu.name = "NVIDIA A100-SXM4-80GB";
  gpu.memory = mib(81920);
  gpu.compute_capability = {8, 0};
  gpu.numa_node = 1;
  gpu.mig_enabled = !migs.empty();
  for (const MigSpec& spec : migs) {
    gpu::MigDevice mig;
    mig.slot = static_cast<std::uint32_t>(gpu.mig_devices.size());
    mig.uuid = "MIG-" + std::to_string(index) + std::to_string(mig.slot);
    mig.profile = spec.profile;
    mig.gi_slices = spec.gi;
    mig.ci_slices = spec.ci;
    mig.memory = mig.nominal_memory = mib(9728 * spec.gi);
    mig.sm_count = 14 * spec.ci;
    mig.gi_cap = 66;
    mig.ci_cap = 67;
    gpu.mig_devices.push_back(mig);
  }
  return gpu;
}

Inventory node(Platform platform, std::vector<Gpu> gpus) {
  Inventory inventory;
  inventory.platform = platform;
  inventory.gpus = std::move(gpus);
  return inventory;
}

Config with(MigStrategy strategy) {
  Config config;
  config.flags.mig_strategy = strategy;
  return config;
}

Config sharing(config::SharingStrategy strategy, std::uint32_t replicas) {
  Config config = make::shared(strategy, replicas);
  config.sharing.resources[0].place = {"c.yaml", 5, 7};
  return config;
}

// "nvidia.com/gpu: GPU-0 GPU-1", one line per resource.
std::vector<std::string> lines_of_plan(const Config& config, const Inventory& inventory) {
  const auto plan = make_plan(config, inventory);
  std::vector<std::string> lines;
  if (!plan) {
    for (const Problem& problem : plan.error()) lines.push_back(to_string(problem));
    return lines;
  }
  for (const PlannedResource& resource : plan->resources) {
    std::string line = resource.name + ":";
    for (const PlannedDevice& device : resource.devices) line += " " + device.uuid;
    lines.push_back(line);
  }
  return lines;
}

// One device for WSL, one for Tegra.

TEST(DevicesOnWsl, AreOneForAllGpusWithTheOneNodeAndNothingElse) {
  for (const std::size_t count : {1, 2, 5}) {
    std::vector<Gpu> gpus;
    for (std::uint32_t i = 0; i < count; ++i) gpus.push_back(gpu_of(i));
    const auto plan = make_plan({}, node(Platform::kWsl, gpus));
    ASSERT_TRUE(plan);
    ASSERT_THAT(plan->resources, SizeIs(1)) << count;
    ASSERT_THAT(plan->resources[0].devices, SizeIs(1)) << count;
    const PlannedDevice& device = plan->resources[0].devices[0];
    EXPECT_EQ(device.uuid, "all");
    EXPECT_EQ(device.index, "all");
    EXPECT_THAT(device.paths, ElementsAre("/dev/dxg"));
    EXPECT_EQ(device.numa_node, std::nullopt);
    EXPECT_EQ(device.memory, Bytes{0});
    EXPECT_EQ(device.compute_capability, gpu::ComputeCapability{});
    EXPECT_FALSE(device.is_mig);
  }
  EXPECT_THAT(lines_of_plan({}, node(Platform::kWsl, {})), IsEmpty()) << "without a GPU there is no device";
}

TEST(DevicesOnWsl, AreOneOfEveryResource) {
  EXPECT_THAT(lines_of_plan(with(MigStrategy::kMixed),
                            node(Platform::kWsl, {gpu_of(0), gpu_of(1), gpu_of(2, {{"1g.10gb"}, {"1g.10gb"}})})),
              ElementsAre("nvidia.com/gpu: all", "nvidia.com/mig-1g.10gb: all"));
}

TEST(DevicesOnTegra, AreOneWithoutNodesMemoryOrCapability) {
  for (const auto strategy : {MigStrategy::kNone, MigStrategy::kSingle, MigStrategy::kMixed}) {
    for (const auto& listed : {std::vector<Gpu>{}, std::vector<Gpu>{gpu_of(0)}}) {  // the library may list it or not
      const auto plan = make_plan(with(strategy), node(Platform::kTegra, listed));
      ASSERT_TRUE(plan);
      ASSERT_THAT(plan->resources, SizeIs(1));
      EXPECT_EQ(plan->resources[0].name, "nvidia.com/gpu");
      ASSERT_THAT(plan->resources[0].devices, SizeIs(1));
      const PlannedDevice& device = plan->resources[0].devices[0];
      EXPECT_EQ(device.uuid, "tegra");
      EXPECT_EQ(device.index, "0");
      EXPECT_THAT(device.paths, IsEmpty());
      EXPECT_EQ(device.numa_node, std::nullopt);
      EXPECT_EQ(device.memory, Bytes{0});
      EXPECT_EQ(device.compute_capability, (gpu::ComputeCapability{0, 0}));
    }
  }
}

TEST(DevicesOnTegra, AreExplainedByThePlatformInTheTable) {
  const Inventory inventory = node(Platform::kTegra, {});
  EXPECT_THAT(render_table(*make_plan({}, inventory), inventory, {}, {}),
              AllOf(HasSubstr("0 GPUs, driver unknown, platform tegra"), HasSubstr("nvidia.com/gpu: 1")));
}

TEST(DevicesOnTegra, AreTimeSlicedLikeOthersAndRefusedForMps) {
  for (const Platform platform : {Platform::kTegra, Platform::kWsl}) {
    const Inventory inventory = node(platform, {gpu_of(0)});
    const auto sliced = make_plan(sharing(config::SharingStrategy::kTimeSlicing, 3), inventory);
    ASSERT_TRUE(sliced);
    ASSERT_THAT(sliced->resources, SizeIs(1));
    EXPECT_EQ(sliced->resources[0].devices[0].slots, 3u);
    EXPECT_TRUE(sliced->resources[0].devices[0].replicated);
    EXPECT_THAT(
        lines_of_plan(sharing(config::SharingStrategy::kMps, 3), inventory),
        ElementsAre(HasSubstr("c.yaml:5:7: error: sharing.mps: asks for MPS, which there is none of on this node")));
  }
}

// Devices of a GPU and of its parts.
TEST(DeviceMap, ARecordOfAGpuHoldsWhatTheDriverSaid) {
  Gpu gpu = gpu_of(2);
  gpu.minor = 5;
  const auto plan = make_plan({}, node(Platform::kNvml, {gpu}));
  ASSERT_TRUE(plan);
  const PlannedDevice& device = plan->resources.at(0).devices.at(0);
  EXPECT_EQ(device.uuid, "GPU-2");
  EXPECT_EQ(device.index, "2");
  EXPECT_THAT(device.paths, ElementsAre("/dev/nvidia5")) << "the minor number, not the index";
  EXPECT_EQ(device.numa_node, 1u);
  EXPECT_EQ(device.memory, mib(81920));
  EXPECT_EQ(device.compute_capability, (gpu::ComputeCapability{8, 0}));
}

TEST(DeviceMap, ARecordOfAMigDeviceTakesNodeNumaAndCapabilityFromItsParent) {
  Gpu gpu = gpu_of(1, {{"2g.20gb", 2, 2}});
  gpu.minor = 4;
  gpu.mig_devices[0].slot = 3;
  const auto plan = make_plan(with(MigStrategy::kMixed), node(Platform::kNvml, {gpu}));
  ASSERT_TRUE(plan);
  const PlannedDevice& device = plan->resources.at(0).devices.at(0);
  EXPECT_EQ(device.uuid, "MIG-10");
  EXPECT_EQ(device.index, "1:3") << "gaps in the slots are kept";
  EXPECT_THAT(device.paths,
              ElementsAre("/dev/nvidia4", "/dev/nvidia-caps/nvidia-cap66", "/dev/nvidia-caps/nvidia-cap67"));
  EXPECT_EQ(device.numa_node, 1u);
  EXPECT_EQ(device.memory, mib(2 * 9728));
  EXPECT_EQ(device.compute_capability, (gpu::ComputeCapability{8, 0}));
}

TEST(DeviceMap, DisplayGpusAreLeftOutByEitherNameAndNoOther) {
  Inventory inventory = node(Platform::kNvml, {gpu_of(0), gpu_of(1), gpu_of(2), gpu_of(3)});
  inventory.gpus[0].name = "DGX Display";
  inventory.gpus[1].name = "NVIDIA DGX Display";
  inventory.gpus[2].name = "NVIDIA DGX Display 2";
  EXPECT_THAT(lines_of_plan({}, inventory), ElementsAre("nvidia.com/gpu: GPU-2 GPU-3"));
  EXPECT_EQ(make_plan({}, inventory)->resources[0].devices[0].index, "2");
}

// MIG.

TEST(MigStrategies, MixedWritesDotsForPlus) {
  const Inventory inventory = node(
      Platform::kNvml, {gpu_of(0, {{"1g.24gb+me"}, {"1g.24gb+me.all"}, {"1g.24gb+gfx"}, {"1g.24gb-me"}, {"1g.24gb"}})});
  EXPECT_THAT(lines_of_plan(with(MigStrategy::kMixed), inventory),
              ElementsAre("nvidia.com/mig-1g.24gb: MIG-04", "nvidia.com/mig-1g.24gb-me: MIG-03",
                          "nvidia.com/mig-1g.24gb.gfx: MIG-02", "nvidia.com/mig-1g.24gb.me: MIG-00",
                          "nvidia.com/mig-1g.24gb.me.all: MIG-01"));
}

TEST(MigStrategies, MixedRefusesAPartOfAGpuInstance) {
  const Inventory inventory = node(Platform::kNvml, {gpu_of(0, {{"1c.2g.20gb", 2, 1}})});
  EXPECT_THAT(lines_of_plan(with(MigStrategy::kMixed), inventory),
              ElementsAre(HasSubstr("has a MIG device 1c.2g.20gb (MIG-00) that is a part of a GPU instance")));
  EXPECT_THAT(lines_of_plan(with(MigStrategy::kSingle), inventory), ElementsAre("nvidia.com/gpu: MIG-00"))
      << "single asks only that all are alike";
}

TEST(MigStrategies, SingleComparesTheDriversAttributesAndNothingElse) {
  Inventory inventory = node(Platform::kNvml, {gpu_of(0, {{"1g.24gb"}, {"1g.24gb+gfx"}})});
  EXPECT_THAT(lines_of_plan(with(MigStrategy::kSingle), inventory), ElementsAre("nvidia.com/gpu: MIG-00 MIG-01"))
      << "graphics is not among the attributes";
  inventory.gpus[0].mig_devices[1].memory = mib(9000);
  EXPECT_THAT(lines_of_plan(with(MigStrategy::kSingle), inventory), ElementsAre("nvidia.com/gpu: MIG-00 MIG-01"))
      << "what is free for programs may differ by a little";
  const auto refused = ElementsAre(HasSubstr("that is unlike 1g.24gb (MIG-00)"));
  using Change = void (*)(gpu::MigDevice&);
  for (const Change change :
       {Change([](gpu::MigDevice& mig) { mig.nominal_memory = mib(1); }),
        Change([](gpu::MigDevice& mig) { mig.sm_count = 1; }), Change([](gpu::MigDevice& mig) { mig.engines[4] = 1; }),
        Change([](gpu::MigDevice& mig) { mig.gi_slices = 2; }),
        Change([](gpu::MigDevice& mig) { mig.ci_slices = 2; })}) {
    Inventory changed = inventory;
    change(changed.gpus[0].mig_devices[1]);
    EXPECT_THAT(lines_of_plan(with(MigStrategy::kSingle), changed), refused);
  }
}

TEST(MigStrategies, ADeviceWhoseNodesNobodyKnowsIsLeftOutOnlyWhereItsNodesArePassed) {
  Inventory inventory = node(Platform::kNvml, {gpu_of(0, {{"1g.10gb"}, {"1g.10gb"}})});
  inventory.gpus[0].mig_devices[0].ci_cap.reset();
  Config config = with(MigStrategy::kMixed);
  EXPECT_THAT(lines_of_plan(config, inventory), ElementsAre("nvidia.com/mig-1g.10gb: MIG-00 MIG-01"));
  config.flags.plugin.pass_device_specs = true;
  EXPECT_THAT(lines_of_plan(config, inventory), ElementsAre("nvidia.com/mig-1g.10gb: MIG-01"));
  const auto plan = make_plan(config, inventory);
  ASSERT_THAT(plan->left_out, SizeIs(1));
  EXPECT_EQ(plan->left_out[0].what, "MIG device 0:0 (MIG-00)");
  EXPECT_THAT(plan->left_out[0].why, HasSubstr("mig-minors"));
}

TEST(Plan, ShowsWhatTheDriverWouldNotSay) {
  Inventory inventory = node(Platform::kNvml, {gpu_of(0)});
  inventory.doubts = {"GPU 0 (GPU-0): the driver does not report its compute capability"};
  EXPECT_THAT(make_plan({}, inventory)->notes, testing::Contains(inventory.doubts[0]));
}

}  // namespace discovered_test
}  // namespace tranche::plan
