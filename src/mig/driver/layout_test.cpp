#include "mig/driver/layout.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tranche::host {
namespace {

constexpr std::uint32_t kOne = 19, kThree = 9;

MigWanted one(std::uint32_t start) {
  return {kOne, "1g.5gb", {start, 1}, {1}};
}
MigWanted three(std::uint32_t start) {
  return {kThree, "3g.20gb", {start, 4}, {3}};
}
MigGpuInstance there(const MigWanted& wanted, std::uint32_t id) {
  MigGpuInstance instance{
      .id = id, .profile_id = wanted.profile_id, .place = wanted.place, .compute = {}, .processes = {}};
  for (const auto slices : wanted.compute)
    instance.compute.push_back({.id = static_cast<std::uint32_t>(instance.compute.size()),
                                .profile_id = 0,
                                .slices = slices,
                                .start = 0,
                                .uuid = "MIG-" + std::to_string(id)});
  return instance;
}
MigGpu cut(std::vector<MigGpuInstance> instances) {
  MigGpu gpu;
  gpu.capable = gpu.enabled = gpu.pending = true;
  gpu.instances = std::move(instances);
  return gpu;
}

MigGpu off() {
  MigGpu gpu;
  gpu.capable = true;
  return gpu;
}

TEST(MigLayout, WhatIsAsWantedNeedsNoStep) {
  EXPECT_EQ(next_step(cut({there(three(0), 1)}), {true, {three(0)}}), std::nullopt);
  EXPECT_EQ(next_step(off(), {false, {}}), std::nullopt);
}

TEST(MigLayout, WhatGoesGoesFirstAndWhatStaysIsNotTouched) {
  MigGpu gpu = cut({there(one(0), 7), there(three(4), 2)});
  const MigLayout wanted{true, {three(0), three(4)}};
  EXPECT_EQ(staying(gpu, wanted), std::vector<std::string>{"MIG-2"});
  ASSERT_EQ(leaving(gpu, wanted).size(), 1u);
  EXPECT_EQ(leaving(gpu, wanted)[0].id, 7u);
  auto step = next_step(gpu, wanted);
  ASSERT_TRUE(step);
  EXPECT_EQ(step->what, MigStep::What::kDestroyCompute);
  EXPECT_EQ(step->gpu_instance, 7u);
  gpu.instances[0].compute.clear();
  EXPECT_EQ(next_step(gpu, wanted)->what, MigStep::What::kDestroyInstance);
  gpu.instances.erase(gpu.instances.begin());
  EXPECT_EQ(next_step(gpu, wanted)->what, MigStep::What::kCreateInstance);
  gpu.instances.push_back(there({kThree, "3g.20gb", {0, 4}, {}}, 1));
  step = next_step(gpu, wanted);
  EXPECT_EQ(step->what, MigStep::What::kCreateCompute) << "a GPU instance without a compute instance is seen";
  EXPECT_EQ(step->slices, 3u);
}

TEST(MigLayout, TheModeIsSwitchedFirstOnAndLastOff) {
  MigGpu gpu = off();
  EXPECT_EQ(to_string(*next_step(gpu, {true, {three(0)}})), "enable MIG");
  gpu = cut({there(three(0), 1)});
  EXPECT_EQ(next_step(gpu, {false, {}})->what, MigStep::What::kDestroyCompute);
  EXPECT_EQ(to_string(*next_step(cut({}), {false, {}})), "disable MIG");
  gpu.pending = false;
  EXPECT_EQ(to_string(*next_step(gpu, {true, {three(0)}})), "enable MIG") << "a pending change is called off";
}

TEST(MigLayout, ComputeInstancesOfAPartStayWhereTheyAreWanted) {
  const MigWanted parts{kThree, "3g.20gb", {0, 4}, {1, 1, 1}};
  MigGpu gpu = cut({there({kThree, "3g.20gb", {0, 4}, {2, 1}}, 1)});
  auto step = next_step(gpu, {true, {parts}});
  EXPECT_EQ(step->what, MigStep::What::kDestroyCompute);
  EXPECT_EQ(step->compute_instance, 0u);
  gpu.instances[0].compute.erase(gpu.instances[0].compute.begin());
  EXPECT_EQ(next_step(gpu, {true, {parts}})->what, MigStep::What::kCreateCompute);
}

TEST(MigLayout, IsTheSameAfterJson) {
  const MigLayout layout{true, {one(3), three(4)}};
  EXPECT_EQ(layout_from(to_json(layout)), layout);
  EXPECT_EQ(layout_from(nlohmann::json("text")), std::nullopt);
}

}  // namespace
}  // namespace tranche::host
