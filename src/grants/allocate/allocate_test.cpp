#include <gmock/gmock.h>

#include "grants/allocate/grant.h"
#include "grants/allocate/joined_fixture.h"

namespace tranche::grants {
namespace allocate_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

// Two H200 in ten slots each, under MPS unless a test says otherwise.
plan::PlannedResource two_h200() {
  auto resource = joined(2, 10);
  resource.split = config::SplitPolicy::kReject;
  resource.devices[0].pool = "gpu-a";
  resource.devices[1].pool = "gpu-b";
  return resource;
}

Result<Grant> ask(const plan::PlannedResource& resource, std::vector<std::string> ids, const Settings& settings = {},
                  const plan::Faults& faults = {}) {
  return allocate(resource, faults, ids, settings);
}

TEST(Allocate, SeveralSlotsGrowMemoryAndSms) {
  const auto grant = ask(two_h200(), {slot(0, 1), slot(0, 0), slot(0, 7)});
  ASSERT_TRUE(grant) << to_string(grant.error());
  EXPECT_EQ(grant->envs.at("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"), uuid(0) + "=43131M");
  EXPECT_EQ(grant->devices[0].slots, 3u);
  EXPECT_THAT(grant->slots, ElementsAre(slot(0, 0), slot(0, 1), slot(0, 7)));
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
  EXPECT_EQ(ask(two_h200(), {slot(0, 1), slot(0, 0)})->id, ask(two_h200(), {slot(0, 0), slot(0, 1)})->id);
  EXPECT_NE(ask(two_h200(), {slot(0, 1)})->id, ask(two_h200(), {slot(0, 0)})->id);
}

TEST(Allocate, UnknownDuplicateAndUnhealthyAreDistinguished) {
  EXPECT_EQ(ask(two_h200(), {slot(0, 10)}).error().kind, Kind::kNotFound);
  EXPECT_EQ(ask(two_h200(), {uuid(0)}).error().kind, Kind::kNotFound);
  EXPECT_EQ(ask(two_h200(), {""}).error().kind, Kind::kNotFound);
  EXPECT_EQ(ask(two_h200(), {}).error().kind, Kind::kInvalid);
  EXPECT_EQ(ask(two_h200(), {slot(0, 1), slot(0, 1)}).error().kind, Kind::kInvalid);
  plan::Faults faults;
  faults.pools["gpu-a"] = "the MPS control daemon is starting";
  const auto sick = ask(two_h200(), {slot(0, 1)}, {}, faults);
  EXPECT_EQ(sick.error().kind, Kind::kUnavailable);
  EXPECT_THAT(sick.error().what, HasSubstr("the MPS control daemon is starting"));
  EXPECT_TRUE(ask(two_h200(), {slot(1, 1)}, {}, faults));
}

// Promise: kubelet/allocate: A device without a daemon gets no MPS environment.
TEST(Allocate, ADeviceThatNoDaemonServesGetsNoEndpoint) {
  auto resource = two_h200();
  for (auto& device : resource.devices) device.pool.clear();
  const auto grant = ask(resource, {slot(0, 1)});
  ASSERT_TRUE(grant);
  EXPECT_TRUE(grant->pool.empty());
  EXPECT_TRUE(grant->mounts.empty());
  EXPECT_THAT(grant->envs, ElementsAre(Pair("NVIDIA_VISIBLE_DEVICES", uuid(0))));
}

}  // namespace allocate_test
}  // namespace tranche::grants
