// Shares of any size: grants on several GPUs of a pool, resources that share a pool, accounting units, and policies
// that leave the limits to the tenant.
#include <gmock/gmock.h>

#include <set>

#include "grants/allocate/grant.h"
#include "grants/allocate/joined_fixture.h"
#include "grants/allocate/prefer_fixture.h"
#include "plan/shares.h"

namespace tranche::grants {
namespace spanning_test {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::Not;

// A resource of each of `gpus` GPUs ("gpu0", "gpu1"), in one pool.
plan::Plan individual(int gpus, std::uint32_t slots) {
  plan::Plan plan;
  plan::PlannedPool pool{.id = "set-1", .devices = {}, .limits = {}};
  for (int gpu = 0; gpu < gpus; ++gpu) {
    auto resource = joined(0, slots);
    resource.name = "nvidia.com/gpu" + std::to_string(gpu);
    resource.devices.push_back(h200(gpu, slots));
    plan.resources.push_back(resource);
    pool.devices.push_back(uuid(gpu));
  }
  plan.pools.push_back(pool);
  return plan;
}

std::vector<std::string> slots_of(int gpu, int count) {
  std::vector<std::string> ids;
  for (int i = 0; i < count; ++i) ids.push_back(slot(gpu, i));
  return ids;
}

std::vector<std::string> both(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Promise: plan/shares: A spanning grant has a limit on each GPU and the smallest percentage.
TEST(AllocateSpan, HasALimitOnEachGpuByUuidAndTheSmallestPercentage) {
  const auto grant = allocate(joined(2, 20), {}, both(slots_of(0, 15), slots_of(1, 5)), {});
  ASSERT_TRUE(grant) << to_string(grant.error());
  EXPECT_EQ(grant->envs.at("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"), uuid(0) + "=107828M," + uuid(1) + "=35942M");
  EXPECT_EQ(grant->envs.at("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"), "25");
  EXPECT_EQ(grant->envs.at("NVIDIA_VISIBLE_DEVICES"), uuid(0) + "," + uuid(1));
  EXPECT_EQ(grant->pool, "set-1");
  ASSERT_EQ(grant->devices.size(), 2u);
  EXPECT_EQ(grant->devices[0].limits.sms, 32u) << "a process has one percentage for all its GPUs";
  EXPECT_EQ(grant->devices[1].limits.sms, 32u);
  EXPECT_EQ(grant->devices[0].limits.memory, mib(107828));
}

TEST(AllocateSpan, TheSmallestPercentageComputesRightOnEveryModel) {
  auto resource = joined(2, 10);
  resource.devices[1].sm_count = 108;  // an A100, against whose counts nothing is known
  resource.devices[1].compute_capability = {8, 0};
  // 20 % would be 26 SMs of the H200, which computes wrong there.
  const auto grant = allocate(resource, {}, both(slots_of(0, 5), slots_of(1, 2)), {});
  ASSERT_TRUE(grant) << to_string(grant.error());
  EXPECT_EQ(grant->envs.at("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"), "23");
  EXPECT_EQ(grant->devices[0].limits.sms, 30u);
}

TEST(AllocateSpan, IsRefusedWhereItIsNotAskedForAndSaysWhatToAskInstead) {
  auto resource = joined(2, 20);
  resource.split = config::SplitPolicy::kReject;
  resource.devices[0].pool = "gpu-0";
  resource.devices[1].pool = "gpu-1";
  const auto grant = allocate(resource, {}, both(slots_of(0, 15), slots_of(1, 5)), {});
  ASSERT_FALSE(grant);
  EXPECT_EQ(grant.error().kind, Kind::kConflict);
  EXPECT_THAT(grant.error().what, HasSubstr("15 on GPU 0 (" + uuid(0) + "), 5 on GPU 1 (" + uuid(1) + ")"));
  EXPECT_THAT(grant.error().what, HasSubstr("ask for at most 20"));
  EXPECT_THAT(grant.error().what, HasSubstr("split: span"));
}

TEST(AllocateSpan, GpusOfDifferentPoolsAreRefusedAlsoThere) {
  auto resource = joined(2, 20);
  resource.devices[1].pool = "set-2";
  EXPECT_EQ(allocate(resource, {}, both(slots_of(0, 15), slots_of(1, 5)), {}).error().kind, Kind::kConflict);
}

TEST(AllocateSpan, MoreSlotsRaiseTheMemoryAlsoOnANodeWithTwoGpus) {
  for (const int gpu : {0, 1}) {
    std::uint64_t before = 0;
    for (int count = 1; count <= 20; ++count) {
      const auto grant = allocate(joined(2, 20), {}, slots_of(gpu, count), {});
      ASSERT_TRUE(grant) << to_string(grant.error());
      const auto limit = 143771ull * static_cast<unsigned>(count) / 20;
      EXPECT_EQ(grant->envs.at("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"), uuid(gpu) + "=" + std::to_string(limit) + "M");
      EXPECT_GT(limit, std::exchange(before, limit));
    }
  }
}

// kubelet merges the answers of one container key by key and keeps the first of each, in an order that it draws.
TEST(AllocateIndividual, EveryKeyOfTwoAnswersIsEqualOrOfOneDeviceAlone) {
  const auto plan = individual(2, 20);
  for (const bool specs : {false, true}) {
    for (const auto strategy : {config::ListStrategy::kVolumeMounts, config::ListStrategy::kCdiAnnotations,
                                config::ListStrategy::kCdiCri, config::ListStrategy::kEnvvar}) {
      Settings settings;
      settings.flags.plugin.device_list_strategy = {strategy};
      settings.flags.plugin.pass_device_specs = specs;
      settings.control_nodes = {"/dev/nvidiactl"};
      settings.imex_channel = true;
      std::vector<Grant> grants;
      for (int gpu = 0; gpu < 2; ++gpu) {
        const auto& resource = plan.resources[static_cast<std::size_t>(gpu)];
        auto grant = allocate(resource, {}, slots_of(gpu, 5), settings, around(plan, resource));
        ASSERT_TRUE(grant) << to_string(grant.error());
        grants.push_back(*std::move(grant));
      }
      for (const auto& [name, value] : grants[0].envs) {
        if (name == "NVIDIA_VISIBLE_DEVICES" && strategy == config::ListStrategy::kEnvvar) continue;
        ASSERT_TRUE(grants[1].envs.contains(name)) << name;
        EXPECT_EQ(grants[1].envs.at(name), value) << name;
      }
      EXPECT_EQ(grants[0].envs.size(), grants[1].envs.size());
      for (const auto& mount : grants[0].mounts) {
        if (mount.container_path == kEndpointInContainer) continue;  // whichever comes first: both let the container in
        for (const auto& other : grants[1].mounts) {
          if (other.container_path == mount.container_path) {
            EXPECT_EQ(other, mount);
          }
        }
      }
      for (const auto& node : grants[0].device_nodes) {
        for (const auto& other : grants[1].device_nodes) {
          if (other.container_path == node.container_path) {
            EXPECT_EQ(other, node);
          }
        }
      }
      for (const auto& [name, value] : grants[0].annotations) EXPECT_FALSE(grants[1].annotations.contains(name));
    }
  }
}

TEST(AllocateIndividual, LimitsAreTheServersAndTheDevicesComeAsNodesToo) {
  const auto plan = individual(2, 20);
  Settings settings;
  settings.control_nodes = {"/dev/nvidiactl"};
  const auto grant = allocate(plan.resources[1], {}, slots_of(1, 5), settings, around(plan, plan.resources[1]));
  ASSERT_TRUE(grant) << to_string(grant.error());
  EXPECT_THAT(grant->envs, Not(Contains(Key(Eq("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT")))));
  EXPECT_THAT(grant->envs, Not(Contains(Key(Eq("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE")))));
  EXPECT_EQ(grant->devices[0].limits.memory, mib(35942)) << "what the server receives and the guard applies";
  EXPECT_EQ(grant->devices[0].limits.sms, 32u);
  std::vector<std::string> nodes;
  for (const auto& node : grant->device_nodes) nodes.push_back(node.container_path);
  EXPECT_THAT(nodes, ElementsAre("/dev/nvidiactl", "/dev/nvidia1"));
}

TEST(AllocateIndividual, AloneOnItsPoolAResourceAnswersAsAnyOther) {
  const auto plan = individual(1, 20);
  const auto grant = allocate(plan.resources[0], {}, slots_of(0, 5), {}, around(plan, plan.resources[0]));
  ASSERT_TRUE(grant) << to_string(grant.error());
  EXPECT_EQ(grant->envs.at("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"), uuid(0) + "=35942M");
  EXPECT_THAT(grant->device_nodes, IsEmpty());
}

TEST(AllocateUnits, AGrantTooSmallForAContextIsRefusedWithWhatToAskInstead) {
  auto resource = joined(1, 1000);
  resource.devices[0].memory = mib(16384);
  const auto small = allocate(resource, {}, slots_of(0, 4), {});
  ASSERT_FALSE(small);
  EXPECT_EQ(small.error().kind, Kind::kInvalid);
  EXPECT_THAT(small.error().what, HasSubstr("is 65 MiB of GPU 0"));
  EXPECT_THAT(small.error().what, HasSubstr("ask for at least 5 a container"));
  EXPECT_TRUE(allocate(resource, {}, slots_of(0, 5), {}));
  resource.devices[0].memory = mib(64);
  EXPECT_THAT(allocate(resource, {}, slots_of(0, 4), {}).error().what, HasSubstr("fewer slots"));
}

TEST(AllocateUnits, ADeviceWhoseServerHasItsClientsTakesNoMore) {
  const auto resource = joined(2, 1000);
  Around around;
  around.room[uuid(0)] = {48, 48};
  around.room[uuid(1)] = {47, 48};
  const auto full = allocate(resource, {}, slots_of(0, 300), {}, around);
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().kind, Kind::kUnavailable);
  EXPECT_THAT(full.error().what, HasSubstr("has 48 containers, and its MPS server takes 48 clients"));
  EXPECT_TRUE(allocate(resource, {}, slots_of(1, 300), {}, around));
}

TEST(AllocateUnits, TheCeilingIsThePools) {
  auto plan = individual(2, 1000);
  plan.pools[0].max_clients = 60;
  EXPECT_EQ(around(plan, plan.resources[1]).room.at(uuid(1)).most, 60u);
}

TEST(AllocatePolicy, WhatIsTheTenantsToSayIsNotWritten) {
  auto resource = joined(1, 10);
  resource.devices[0].policy.threads.kind = config::ThreadsPolicy::Kind::kTenant;
  auto grant = allocate(resource, {}, slots_of(0, 3), {});
  ASSERT_TRUE(grant) << to_string(grant.error());
  EXPECT_THAT(grant->envs, Not(Contains(Key(Eq("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE")))));
  EXPECT_THAT(grant->envs, Contains(Key(Eq("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"))));
  EXPECT_GT(grant->devices[0].limits.threads.hundredths, 0u) << "the maximum that the server receives";
  resource.devices[0].policy.memory.kind = config::MemoryPolicy::Kind::kTenant;
  grant = allocate(resource, {}, slots_of(0, 3), {});
  ASSERT_TRUE(grant) << to_string(grant.error());
  EXPECT_THAT(grant->envs, Not(Contains(Key(Eq("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT")))));
  EXPECT_GT(grant->devices[0].limits.memory.value, 0u);
  EXPECT_EQ(grant->envs.at("CUDA_MPS_PIPE_DIRECTORY"), kEndpointInContainer);
}

TEST(AllocatePolicy, AWholeGpuIsTheRightCardWhateverItsIndex) {
  for (int gpu = 0; gpu < 4; ++gpu) {
    auto resource = joined(4, 1);
    resource.sharing = config::SharingStrategy::kNone;
    resource.split = config::SplitPolicy::kReject;
    for (auto& device : resource.devices) {
      device.replicated = false;
      device.pool.clear();
    }
    const auto grant = allocate(resource, {}, std::vector<std::string>{uuid(gpu)}, {});
    ASSERT_TRUE(grant) << to_string(grant.error());
    EXPECT_THAT(grant->envs, ElementsAre(testing::Pair("NVIDIA_VISIBLE_DEVICES", uuid(gpu))));
  }
}

// Promise: kubelet/preferred: A device at its client capacity is chosen last.
TEST(PreferUnits, ADeviceWhoseServerHasItsClientsComesLast) {
  const auto resource = joined(2, 10);
  Around around;
  around.room[uuid(0)] = {48, 48};
  const auto available = both(slots_of(0, 3), slots_of(1, 10));  // GPU 0 is the best fit for three
  const gpu::Inventory none;
  const auto picked = prefer(resource, none, available, {}, 3, config::AllocationPolicy::kPacked, around);
  ASSERT_TRUE(picked) << to_string(picked.error());
  for (const auto& id : *picked) EXPECT_THAT(id, HasSubstr(uuid(1)));
  const auto one = prefer(resource, none, available, {}, 1, config::AllocationPolicy::kPacked, around);
  ASSERT_TRUE(one) << to_string(one.error());
  EXPECT_THAT((*one)[0], HasSubstr(uuid(1)));
}

TEST(PreferUnits, OfSixteenThousandIdsThoseOfTheFullestGpuThatFitsAreTaken) {
  const auto resource = joined(16, 1000);
  std::vector<std::string> available;
  for (int gpu = 0; gpu < 16; ++gpu) available = both(std::move(available), slots_of(gpu, 1000 - gpu));
  const auto picked = prefer(resource, gpu::Inventory{}, available, {}, 700, config::AllocationPolicy::kDistributed);
  ASSERT_TRUE(picked) << to_string(picked.error());
  EXPECT_EQ(picked->size(), 700u);
  EXPECT_EQ(std::set<std::string>(picked->begin(), picked->end()).size(), 700u);
  for (const auto& id : *picked) EXPECT_THAT(id, HasSubstr(uuid(15))) << "the fullest that fits";
}

}  // namespace spanning_test
}  // namespace tranche::grants
