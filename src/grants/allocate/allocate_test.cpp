#include <gmock/gmock.h>

#include "grants/allocate/grant.h"

namespace tranche::allocate {
namespace allocate_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

// Two H200 in ten slots each, under MPS unless a test says otherwise.
plan::PlannedResource two_h200() {
  plan::PlannedResource resource;
  resource.name = "nvidia.com/gpu.shared";
  resource.sharing = config::SharingStrategy::kMps;
  resource.replicas = 10;
  for (int i = 0; i < 2; ++i) {
    plan::PlannedDevice device;
    device.uuid = device.gpu_uuid =
        i == 0 ? "GPU-aaaaaaaa-0000-4000-8000-00000000000a" : "GPU-bbbbbbbb-0000-4000-8000-00000000000b";
    device.index = std::to_string(i);
    device.replicated = true;
    device.slots = 10;
    device.memory = mib(143771);
    device.sm_count = 132;
    device.compute_capability = {9, 0};
    device.paths = {"/dev/nvidia" + std::to_string(i)};
    device.pool = i == 0 ? "gpu-a" : "gpu-b";
    resource.devices.push_back(device);
  }
  return resource;
}

Result<Grant> ask(const plan::PlannedResource& resource, std::vector<std::string> ids, const Settings& settings = {},
                  const advertise::Faults& faults = {}) {
  return allocate(resource, faults, ids, settings);
}

TEST(Allocate, OneSlotIsATenthOfTheGpu) {
  const auto grant = ask(two_h200(), {"GPU-bbbbbbbb-0000-4000-8000-00000000000b::3"});
  ASSERT_TRUE(grant) << to_string(grant.error());
  EXPECT_EQ(grant->envs.at("NVIDIA_VISIBLE_DEVICES"), "GPU-bbbbbbbb-0000-4000-8000-00000000000b");
  EXPECT_EQ(grant->envs.at("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"), "GPU-bbbbbbbb-0000-4000-8000-00000000000b=14377M");
  EXPECT_EQ(grant->envs.at("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"), "10");
  EXPECT_EQ(grant->envs.at("CUDA_MPS_PIPE_DIRECTORY"), kEndpointInContainer);
  ASSERT_EQ(grant->mounts.size(), 1u);
  EXPECT_TRUE(grant->mounts[0].read_only);
  EXPECT_EQ(grant->mounts[0].host_path, "/run/nvidia/mps/pools/gpu-b/endpoints/" + grant->id);
  EXPECT_EQ(grant->devices[0].limits.sms, 12u);
}

TEST(Allocate, TheFolderOfTheDrainProgramIsMountedBesideAnEndpointOnly) {
  Settings settings;
  settings.program_dir = "/var/lib/tranche/bin";
  auto resource = two_h200();
  const auto grant = ask(resource, {"GPU-bbbbbbbb-0000-4000-8000-00000000000b::3"}, settings);
  ASSERT_TRUE(grant) << to_string(grant.error());
  ASSERT_EQ(grant->mounts.size(), 2u);
  EXPECT_EQ(grant->mounts[1], (Mount{kProgramsInContainer, "/var/lib/tranche/bin", true}));
  resource.sharing = config::SharingStrategy::kTimeSlicing;
  const auto sliced = ask(resource, {"GPU-bbbbbbbb-0000-4000-8000-00000000000b::3"}, settings);
  ASSERT_TRUE(sliced) << to_string(sliced.error());
  EXPECT_TRUE(sliced->mounts.empty());
}

TEST(Allocate, SeveralSlotsGrowMemoryAndSms) {
  const auto grant =
      ask(two_h200(), {"GPU-aaaaaaaa-0000-4000-8000-00000000000a::1", "GPU-aaaaaaaa-0000-4000-8000-00000000000a::0",
                       "GPU-aaaaaaaa-0000-4000-8000-00000000000a::7"});
  ASSERT_TRUE(grant) << to_string(grant.error());
  EXPECT_EQ(grant->envs.at("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"), "GPU-aaaaaaaa-0000-4000-8000-00000000000a=43131M");
  EXPECT_EQ(grant->devices[0].slots, 3u);
  EXPECT_THAT(grant->slots,
              ElementsAre("GPU-aaaaaaaa-0000-4000-8000-00000000000a::0", "GPU-aaaaaaaa-0000-4000-8000-00000000000a::1",
                          "GPU-aaaaaaaa-0000-4000-8000-00000000000a::7"));
}

// Promise: mps/mig: The memory variable is left out for a MIG device.
TEST(Allocate, LeavesTheMemoryVariableOutForAMigDevice) {
  auto resource = two_h200();
  plan::PlannedDevice& device = resource.devices[0];
  device.uuid = "MIG-aaaaaaaa-0000-5000-8000-00000000000a";
  device.is_mig = true;
  device.memory = mib(16384);
  device.sm_count = 16;
  device.pool = "mig-aaaaaaaa";
  device.paths = {"/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap12", "/dev/nvidia-caps/nvidia-cap13"};
  Settings settings;
  settings.flags.plugin.pass_device_specs = true;
  const auto grant = ask(resource, {"MIG-aaaaaaaa-0000-5000-8000-00000000000a::3"}, settings);
  ASSERT_TRUE(grant) << to_string(grant.error());
  EXPECT_FALSE(grant->envs.contains("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"));
  EXPECT_EQ(grant->envs.at("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"), "10");
  EXPECT_EQ(grant->envs.at("NVIDIA_VISIBLE_DEVICES"), "MIG-aaaaaaaa-0000-5000-8000-00000000000a");
  EXPECT_EQ(grant->mounts[0].host_path, "/run/nvidia/mps/pools/mig-aaaaaaaa/endpoints/" + grant->id);
  std::vector<std::string> nodes;
  for (const auto& node : grant->device_nodes) nodes.push_back(node.host_path);
  EXPECT_THAT(nodes, ElementsAre("/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap12", "/dev/nvidia-caps/nvidia-cap13"));
  EXPECT_EQ(grant->devices[0].limits.memory.in_mib(), 1638u) << "what the daemon enforces and people see";
}

TEST(Allocate, TheSameSlotsNameTheSameEndpointInAnyOrder) {
  EXPECT_EQ(
      ask(two_h200(), {"GPU-aaaaaaaa-0000-4000-8000-00000000000a::1", "GPU-aaaaaaaa-0000-4000-8000-00000000000a::0"})
          ->id,
      ask(two_h200(), {"GPU-aaaaaaaa-0000-4000-8000-00000000000a::0", "GPU-aaaaaaaa-0000-4000-8000-00000000000a::1"})
          ->id);
  EXPECT_NE(ask(two_h200(), {"GPU-aaaaaaaa-0000-4000-8000-00000000000a::1"})->id,
            ask(two_h200(), {"GPU-aaaaaaaa-0000-4000-8000-00000000000a::0"})->id);
}

TEST(Allocate, SlotsOnTwoGpusAreRefusedWithBothNamed) {
  const auto grant =
      ask(two_h200(), {"GPU-aaaaaaaa-0000-4000-8000-00000000000a::1", "GPU-bbbbbbbb-0000-4000-8000-00000000000b::0"});
  ASSERT_FALSE(grant);
  EXPECT_EQ(grant.error().kind, Kind::kConflict);
  EXPECT_THAT(grant.error().what, HasSubstr("GPU-aaaaaaaa-0000-4000-8000-00000000000a"));
  EXPECT_THAT(grant.error().what, HasSubstr("GPU-bbbbbbbb-0000-4000-8000-00000000000b"));
  EXPECT_THAT(grant.error().what, HasSubstr("ask for at most 10"));
}

// Promise: kubelet/allocate: More than one slot is refused where the configuration allows one.
TEST(Allocate, MoreThanOneIsRefusedWhereTheConfigurationSaysSo) {
  auto resource = two_h200();
  resource.one_slot_per_request = true;
  const auto grant =
      ask(resource, {"GPU-aaaaaaaa-0000-4000-8000-00000000000a::1", "GPU-aaaaaaaa-0000-4000-8000-00000000000a::0"});
  ASSERT_FALSE(grant);
  EXPECT_EQ(grant.error().kind, Kind::kInvalid);
  EXPECT_THAT(grant.error().what, HasSubstr("failRequestsGreaterThanOne"));
}

TEST(Allocate, UnknownDuplicateAndUnhealthyAreDistinguished) {
  EXPECT_EQ(ask(two_h200(), {"GPU-aaaaaaaa-0000-4000-8000-00000000000a::10"}).error().kind, Kind::kNotFound);
  EXPECT_EQ(ask(two_h200(), {"GPU-aaaaaaaa-0000-4000-8000-00000000000a"}).error().kind, Kind::kNotFound);
  EXPECT_EQ(ask(two_h200(), {""}).error().kind, Kind::kNotFound);
  EXPECT_EQ(ask(two_h200(), {}).error().kind, Kind::kInvalid);
  EXPECT_EQ(
      ask(two_h200(), {"GPU-aaaaaaaa-0000-4000-8000-00000000000a::1", "GPU-aaaaaaaa-0000-4000-8000-00000000000a::1"})
          .error()
          .kind,
      Kind::kInvalid);
  advertise::Faults faults;
  faults.pools["gpu-a"] = "the MPS control daemon is starting";
  const auto sick = ask(two_h200(), {"GPU-aaaaaaaa-0000-4000-8000-00000000000a::1"}, {}, faults);
  EXPECT_EQ(sick.error().kind, Kind::kUnavailable);
  EXPECT_THAT(sick.error().what, HasSubstr("the MPS control daemon is starting"));
  EXPECT_TRUE(ask(two_h200(), {"GPU-bbbbbbbb-0000-4000-8000-00000000000b::1"}, {}, faults));
}

// Promise: kubelet/allocate: Time-sliced slots may span GPUs.
TEST(Allocate, TimeSlicedSlotsGetNoEndpointAndMaySpanGpus) {
  auto resource = two_h200();
  resource.sharing = config::SharingStrategy::kTimeSlicing;
  const auto grant =
      ask(resource, {"GPU-bbbbbbbb-0000-4000-8000-00000000000b::1", "GPU-aaaaaaaa-0000-4000-8000-00000000000a::0"});
  ASSERT_TRUE(grant);
  EXPECT_TRUE(grant->mounts.empty());
  EXPECT_THAT(grant->envs,
              ElementsAre(Pair("NVIDIA_VISIBLE_DEVICES",
                               "GPU-aaaaaaaa-0000-4000-8000-00000000000a,GPU-bbbbbbbb-0000-4000-8000-00000000000b")));
}

// Promise: kubelet/allocate: A device without a daemon gets no MPS environment.
TEST(Allocate, ADeviceThatNoDaemonServesGetsNoEndpoint) {
  auto resource = two_h200();
  for (auto& device : resource.devices) device.pool.clear();
  const auto grant = ask(resource, {"GPU-aaaaaaaa-0000-4000-8000-00000000000a::1"});
  ASSERT_TRUE(grant);
  EXPECT_TRUE(grant->pool.empty());
  EXPECT_TRUE(grant->mounts.empty());
  EXPECT_THAT(grant->envs, ElementsAre(Pair("NVIDIA_VISIBLE_DEVICES", "GPU-aaaaaaaa-0000-4000-8000-00000000000a")));
}

// Promise: kubelet/allocate: The strategy `index` names devices in the driver's order.
TEST(Allocate, IndexStrategyNamesDevicesInDriverOrder) {
  Settings settings;
  settings.flags.plugin.device_id_strategy = config::IdStrategy::kIndex;
  auto resource = two_h200();
  resource.sharing = config::SharingStrategy::kTimeSlicing;
  EXPECT_EQ(
      ask(resource, {"GPU-bbbbbbbb-0000-4000-8000-00000000000b::1", "GPU-aaaaaaaa-0000-4000-8000-00000000000a::0"},
          settings)
          ->envs.at("NVIDIA_VISIBLE_DEVICES"),
      "0,1");
}

// Promise: kubelet/allocate: With `volume-mounts` and `envvar` the value of `volume-mounts` wins.
TEST(Allocate, VolumeMountsReplaceTheVariable) {
  Settings settings;
  settings.flags.plugin.device_list_strategy = {config::ListStrategy::kEnvvar, config::ListStrategy::kVolumeMounts};
  const auto grant = ask(two_h200(), {"GPU-aaaaaaaa-0000-4000-8000-00000000000a::0"}, settings);
  EXPECT_EQ(grant->envs.at("NVIDIA_VISIBLE_DEVICES"), "/var/run/nvidia-container-devices");
  EXPECT_EQ(grant->mounts.back().container_path,
            "/var/run/nvidia-container-devices/GPU-aaaaaaaa-0000-4000-8000-00000000000a");
  EXPECT_EQ(grant->mounts.back().host_path, "/dev/null");
}

TEST(Allocate, CdiNamesGoWhereTheStrategySays) {
  Settings settings;
  settings.flags.plugin.device_list_strategy = {config::ListStrategy::kCdiCri, config::ListStrategy::kCdiAnnotations};
  settings.flags.gds_enabled = true;
  const auto grant = ask(two_h200(), {"GPU-aaaaaaaa-0000-4000-8000-00000000000a::0"}, settings);
  EXPECT_THAT(grant->cdi_devices,
              ElementsAre("k8s.device-plugin.nvidia.com/gpu=GPU-aaaaaaaa-0000-4000-8000-00000000000a",
                          "k8s.device-plugin.nvidia.com/gds=all"));
  EXPECT_EQ(
      grant->annotations.at("cdi.k8s.io/nvidia-device-plugin_" + grant->id),
      "k8s.device-plugin.nvidia.com/gpu=GPU-aaaaaaaa-0000-4000-8000-00000000000a,k8s.device-plugin.nvidia.com/gds=all");
  EXPECT_EQ(grant->envs.count("NVIDIA_VISIBLE_DEVICES"), 0u);
  EXPECT_EQ(grant->envs.at("NVIDIA_GDS"), "enabled");
}

// Promise: kubelet/allocate: A device node is listed once.
TEST(Allocate, DeviceNodesAreListedOnce) {
  Settings settings;
  settings.flags.plugin.pass_device_specs = true;
  settings.flags.nvidia_dev_root = "/driver/";
  settings.control_nodes = {"/dev/nvidiactl"};
  const auto grant =
      ask(two_h200(), {"GPU-aaaaaaaa-0000-4000-8000-00000000000a::0", "GPU-aaaaaaaa-0000-4000-8000-00000000000a::1"},
          settings);
  EXPECT_THAT(grant->device_nodes, ElementsAre(DeviceNode{"/dev/nvidiactl", "/driver/dev/nvidiactl", "rw"},
                                               DeviceNode{"/dev/nvidia0", "/driver/dev/nvidia0", "rw"}));
}

}  // namespace allocate_test
}  // namespace tranche::allocate
