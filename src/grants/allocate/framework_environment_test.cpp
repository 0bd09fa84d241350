// The share, as the environment of containers states it for frameworks: figures that never ask for more than the share.
#include <gmock/gmock.h>

#include <cstdlib>

#include "grants/allocate/grant.h"
#include "grants/allocate/joined_fixture.h"
#include "plan/plan.h"
#include "plan/shares.h"

namespace tranche::grants {
namespace framework_environment_test {

using testing::AllOf;
using testing::Contains;
using testing::Key;
using testing::Not;
using testing::StartsWith;

// H100 of 80 GB, as the driver reports them.
plan::PlannedResource resource_of(int gpus, std::uint32_t slots) {
  auto resource = joined(gpus, slots);
  for (auto& device : resource.devices) device.memory = mib(81559);
  return resource;
}

using Envs = std::map<std::string, std::string>;

// The environment of a container with so many slots of each GPU.
Envs envs_of(const plan::PlannedResource& resource, const std::vector<int>& slots, const Settings& settings = {},
             const Around& around = {}) {
  std::vector<std::string> ids;
  for (std::size_t gpu = 0; gpu < slots.size(); ++gpu)
    for (int i = 0; i < slots[gpu]; ++i)
      ids.push_back(resource.devices[gpu].uuid + (resource.devices[gpu].replicated ? "::" + std::to_string(i) : ""));
  const auto grant = allocate(resource, {}, ids, settings, around);
  EXPECT_TRUE(grant) << to_string(grant.error());
  return grant ? grant->envs : Envs{};
}

bool names_frameworks(const std::string& name) {
  return name.starts_with("TRANCHE_") || name.starts_with("XLA_") || name.starts_with("TF_");
}

// Promise: kubelet/allocate: Variables for frameworks state the grant's limits and can be turned off.
TEST(FrameworkEnvironment, StatesTheLimitsOfAQuarter) {
  const Envs envs = envs_of(resource_of(1, 4), {1});
  EXPECT_EQ(envs.at("TRANCHE_MEMORY_MIB"), "20389");
  EXPECT_EQ(envs.at("TRANCHE_MEMORY_FRACTION"), "0.2499");
  EXPECT_EQ(envs.at("TRANCHE_SMS"), "32");
  EXPECT_EQ(envs.at("XLA_PYTHON_CLIENT_MEM_FRACTION"), "0.2193") << "0.9 × (20389 - 512) / 81559, rounded down";
  EXPECT_EQ(envs.at("TF_FORCE_GPU_ALLOW_GROWTH"), "true");
}

// Promise: kubelet/allocate: Variables for frameworks state the grant's limits and can be turned off.
TEST(FrameworkEnvironment, IsOfMpsSharesAloneAndCanBeTurnedOff) {
  for (const auto strategy : {config::SharingStrategy::kTimeSlicing, config::SharingStrategy::kNone}) {
    auto resource = resource_of(1, 4);
    resource.sharing = strategy;
    if (strategy == config::SharingStrategy::kNone) {
      resource.devices[0].slots = 1;
      resource.devices[0].replicated = false;
    }
    for (const auto& [name, value] : envs_of(resource, {1})) EXPECT_FALSE(names_frameworks(name)) << name;
  }
  auto unserved = resource_of(1, 4);
  unserved.devices[0].pool.clear();
  for (const auto& [name, value] : envs_of(unserved, {1})) EXPECT_FALSE(names_frameworks(name)) << name;
  Settings off;
  off.framework_environment = false;
  const Envs envs = envs_of(resource_of(1, 4), {1}, off);
  for (const auto& [name, value] : envs) EXPECT_FALSE(names_frameworks(name)) << name;
  EXPECT_THAT(envs, Contains(Key("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"))) << "the limits themselves stay";
}

TEST(FrameworkEnvironment, AWholeGpuLeavesJaxItsOwnDefault) {
  const Envs all = envs_of(resource_of(1, 4), {4});
  EXPECT_EQ(all.at("TRANCHE_MEMORY_FRACTION"), "1.0000");
  EXPECT_THAT(all, Not(Contains(Key("XLA_PYTHON_CLIENT_MEM_FRACTION"))));
  auto open = resource_of(1, 4);
  open.devices[0].policy.memory.kind = config::MemoryPolicy::Kind::kOpen;
  EXPECT_THAT(envs_of(open, {1}), Not(Contains(Key("XLA_PYTHON_CLIENT_MEM_FRACTION"))));
  EXPECT_EQ(envs_of(open, {1}).at("TRANCHE_MEMORY_MIB"), "81559");
}

// A process has one fraction for all its GPUs.
TEST(FrameworkEnvironment, OnSeveralGpusEachFigureIsTheSmallest) {
  for (const bool larger_first : {true, false}) {
    const Envs envs = envs_of(resource_of(2, 4), larger_first ? std::vector{3, 1} : std::vector{1, 3});
    EXPECT_EQ(envs.at("TRANCHE_MEMORY_MIB"), "20389");
    EXPECT_EQ(envs.at("TRANCHE_MEMORY_FRACTION"), "0.2499");
    EXPECT_EQ(envs.at("XLA_PYTHON_CLIENT_MEM_FRACTION"), "0.2193");
    EXPECT_EQ(envs.at("TRANCHE_SMS"), "32");
  }
  const Envs with_a_whole_one = envs_of(resource_of(2, 4), {4, 1});
  EXPECT_EQ(with_a_whole_one.at("XLA_PYTHON_CLIENT_MEM_FRACTION"), "0.2193");
  // The smallest share and the smallest part need not be of the same GPU: half of 10 GiB, a quarter of 80.
  auto unequal = resource_of(2, 4);
  unequal.devices[1].memory = mib(10240);
  const Envs envs = envs_of(unequal, {1, 2});
  EXPECT_EQ(envs.at("TRANCHE_MEMORY_MIB"), "5120");
  EXPECT_EQ(envs.at("TRANCHE_MEMORY_FRACTION"), "0.2499");
}

// kubelet keeps one answer's value of each key (grants/allocate/grant.h, Around).
TEST(FrameworkEnvironment, AJoinedPoolSaysNothingThatAnotherAnswerMayContradict) {
  Around joined;
  joined.pool_is_joined = true;
  const Envs envs = envs_of(resource_of(1, 4), {1}, {}, joined);
  EXPECT_THAT(envs, Not(Contains(Key(AllOf(StartsWith("TRANCHE_"))))));
  EXPECT_THAT(envs, Not(Contains(Key("XLA_PYTHON_CLIENT_MEM_FRACTION"))));
  EXPECT_EQ(envs.at("TF_FORCE_GPU_ALLOW_GROWTH"), "true") << "equal in every answer";
}

TEST(FrameworkEnvironment, WhatTheDriverDoesNotSayIsLeftOut) {
  auto resource = resource_of(1, 4);
  resource.devices[0].memory = {};
  resource.devices[0].sm_count = 0;
  const Envs envs = envs_of(resource, {1});
  EXPECT_THAT(envs, Not(Contains(Key(StartsWith("TRANCHE_")))));
  EXPECT_THAT(envs, Not(Contains(Key("XLA_PYTHON_CLIENT_MEM_FRACTION"))));
}

// Of every size of GPU and share: what a fraction asks for fits in the share beside a context.
TEST(FrameworkEnvironment, NoFractionAsksForMoreThanTheShare) {
  int seen = 0;
  for (const std::uint64_t memory : {8192ull, 16384ull, 24564ull, 46068ull, 81559ull, 143771ull, 1048576ull}) {
    for (const std::uint32_t slots : {2u, 3u, 7u, 10u, 20u, 48u, 1000u}) {
      auto resource = resource_of(1, slots);
      resource.devices[0].memory = mib(memory);
      for (std::uint32_t held = 1; held < slots; held += std::max(1u, slots / 7)) {
        const std::uint64_t share = memory * held / slots;
        if (mib(share) < plan::kSmallestContext) continue;
        const Envs envs = envs_of(resource, {static_cast<int>(held)});
        const double whole = static_cast<double>(memory);
        EXPECT_EQ(envs.at("TRANCHE_MEMORY_MIB"), std::to_string(share));
        EXPECT_LE(std::strtod(envs.at("TRANCHE_MEMORY_FRACTION").c_str(), nullptr) * whole, static_cast<double>(share));
        const double jax = std::strtod(envs.at("XLA_PYTHON_CLIENT_MEM_FRACTION").c_str(), nullptr) * whole;
        EXPECT_GT(jax, 0) << memory << " MiB, " << held << " of " << slots;
        EXPECT_LE(jax + std::min(512.0, static_cast<double>(share) / 2), static_cast<double>(share));
        ++seen;
      }
    }
  }
  EXPECT_GT(seen, 200);
}

}  // namespace framework_environment_test
}  // namespace tranche::grants
