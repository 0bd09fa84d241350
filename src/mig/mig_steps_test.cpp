#include "mig/mig_plan.h"

#include <gmock/gmock.h>

namespace tranche::mig {
namespace steps_test {

using ::testing::IsEmpty;

constexpr std::uint32_t kOne = 19, kThree = 9;

GpuInstance one(std::uint32_t start) {
  return {kNotMadeYet, kOne, {start, 1}, {{.placement = {0, 1}}}};
}
GpuInstance three(std::uint32_t start, const std::vector<Placement>& compute = {{0, 3}}) {
  GpuInstance instance{kNotMadeYet, kThree, {start, 4}};
  for (const Placement& at : compute) instance.compute.push_back({.placement = at});
  return instance;
}
GpuInstance there(GpuInstance instance, std::uint32_t id) {
  instance.id = id;
  for (std::uint32_t i = 0; i < instance.compute.size(); ++i) {
    instance.compute[i].id = i;
    instance.compute[i].uuid = "MIG-" + std::to_string(id);
  }
  return instance;
}
GpuState cut(std::vector<GpuInstance> instances) {
  GpuState gpu;
  gpu.capable = gpu.enabled = gpu.pending = true;
  gpu.instances = std::move(instances);
  return gpu;
}
GpuState off() {
  GpuState gpu;
  gpu.capable = true;
  return gpu;
}
Step::What next(const GpuState& gpu, const GpuState& wanted) {
  return next_step(gpu, wanted)->what;
}

TEST(MigSteps, WhatGoesGoesFirstAndWhatStaysIsNotTouched) {
  GpuState gpu = cut({there(one(0), 7), there(three(4), 2)});
  const GpuState wanted = cut({three(0), three(4)});
  const GpuPlan plan = plan_to(gpu, wanted);
  EXPECT_THAT(plan.leaves(), testing::ElementsAre("MIG-7"));
  ASSERT_EQ(plan.goes().size(), 1u);
  EXPECT_EQ(plan.goes()[0].id, 7u);
  EXPECT_EQ(plan.after.instances.back(), gpu.instances.back());
  const auto step = next_step(gpu, wanted);
  ASSERT_TRUE(step);
  EXPECT_EQ(step->what, Step::What::kDestroyCompute);
  EXPECT_EQ(step->instance, 7u);
  gpu.instances[0].compute.clear();
  EXPECT_EQ(next(gpu, wanted), Step::What::kDestroyInstance);
  gpu.instances.erase(gpu.instances.begin());
  EXPECT_EQ(next(gpu, wanted), Step::What::kCreateInstance);
  gpu.instances.push_back(there(three(0, {}), 1));
  EXPECT_EQ(next(gpu, wanted), Step::What::kCreateCompute) << "a GPU instance without a compute instance is seen";
  EXPECT_EQ(next_step(gpu, wanted)->compute_placement.size, 3u);
}

TEST(MigSteps, TheModeIsSwitchedFirstOnAndLastOff) {
  GpuState gpu = off();
  EXPECT_EQ(next(gpu, cut({three(0)})), Step::What::kModeOn);
  gpu = cut({there(three(0), 1)});
  EXPECT_EQ(next(gpu, off()), Step::What::kDestroyCompute);
  EXPECT_EQ(next(cut({}), off()), Step::What::kModeOff);
  gpu.pending = false;
  EXPECT_EQ(next(gpu, cut({three(0)})), Step::What::kModeOn) << "a pending change is called off";
}

TEST(MigSteps, ComputeInstancesOfAPartStayWhereTheyAreWanted) {
  const GpuState wanted = cut({three(0, {{0, 1}, {1, 1}, {2, 1}})});
  GpuState gpu = cut({there(three(0, {{0, 2}, {2, 1}}), 1)});
  const auto step = next_step(gpu, wanted);
  EXPECT_EQ(step->what, Step::What::kDestroyCompute);
  EXPECT_EQ(step->compute, 0u);
  gpu.instances[0].compute.erase(gpu.instances[0].compute.begin());
  EXPECT_EQ(next(gpu, wanted), Step::What::kCreateCompute);
}

TEST(MigSteps, AComputeInstanceInTheWayGoesAndAnEqualOneElsewhereStays) {
  const GpuState gpu = cut({there(three(0, {{1, 1}, {2, 1}}), 1)});
  const GpuState wanted = cut({three(0, {{0, 2}, {2, 1}})});
  EXPECT_EQ(next_step(gpu, wanted)->compute, 0u) << "the one that lies where the larger one is to be";
  EXPECT_THAT(plan_to(cut({there(three(0, {{1, 1}}), 1)}), cut({three(0, {{0, 1}})})).steps, IsEmpty())
      << "the driver chose its place";
}

TEST(MigSteps, OnlyAHeldComputeInstanceThatGoesIsInTheWay) {
  GpuState gpu = cut({there(three(0, {{0, 1}, {1, 1}}), 1)});
  gpu.instances[0].holders = {{"pod team/job", 0}};
  gpu.instances[0].compute[0].held = true;
  EXPECT_THAT(plan_to(gpu, cut({three(0, {{0, 1}})})).blockers, IsEmpty());
  ASSERT_EQ(plan_to(gpu, cut({three(0, {{1, 1}})})).blockers.size(), 1u);
  EXPECT_EQ(plan_to(gpu, cut({})).blockers, (std::vector<Blocker>{{"profile 9 at slices 0-3", {{"pod team/job", 0}}}}));
}

}  // namespace steps_test
}  // namespace tranche::mig
