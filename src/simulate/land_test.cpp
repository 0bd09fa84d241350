#include "simulate/land.h"

#include <gmock/gmock.h>

#include "make.h"
#include "plan/plan.h"

namespace tranche::simulate {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Sizes = std::map<std::string, std::uint64_t>;

constexpr const char* kGpu = "nvidia.com/gpu";

gpu::Inventory node_of(std::uint32_t gpus) {
  auto inventory = make::gpus(gpus, {"NVIDIA A100", mib(40000), {8, 0}, 108});
  for (std::uint32_t a = 0; a < gpus; ++a)
    for (std::uint32_t b = a + 1; b < gpus; ++b) inventory.links.push_back({a, b, 50, 0});
  return inventory;
}

config::Config sharing(config::SharingStrategy strategy, std::uint32_t replicas, bool one_slot = false) {
  if (strategy == config::SharingStrategy::kNone) return {};
  auto config = make::shared(strategy, replicas, kGpu);
  config.flags.mps_root = "/run/nvidia/mps";
  config.sharing.fail_requests_greater_than_one = one_slot;
  config.sharing.resources[0].strategy = strategy;
  return config;
}

const auto kMps = config::SharingStrategy::kMps;

PodAsk pod(std::string name, std::vector<ContainerAsk> containers) {
  PodAsk ask;
  ask.name = std::move(name);
  ask.containers = std::move(containers);
  return ask;
}

PodAsk pod(std::string name, std::uint64_t count) {
  return pod(std::move(name), {{"main", Role::kMain, {{kGpu, count}}}});
}

Simulation land_on(std::uint32_t gpus, const config::Config& config, const std::vector<PodAsk>& pods) {
  const auto inventory = node_of(gpus);
  const auto plan = plan::make_plan(config, inventory);
  if (!plan) {
    ADD_FAILURE() << to_string(plan.error().front());
    return {};
  }
  return land(*plan, inventory, config, pods);
}

std::vector<std::string> fates(const Simulation& simulation) {
  std::vector<std::string> all;
  for (const auto& outcome : simulation.pods) {
    std::string text(to_string(outcome.fate));
    for (const auto& holding : outcome.holdings)
      for (const auto& on : holding.devices) text += " " + std::to_string(on.slots) + "@" + on.index;
    all.push_back(text);
  }
  return all;
}

std::vector<std::uint32_t> free_on(const Simulation& simulation) {
  std::vector<std::uint32_t> free;
  for (const auto& device : simulation.resources.at(0).devices) free.push_back(device.slots - device.taken);
  return free;
}

TEST(Land, SeveralSlotsGoToTheGpuWhereTheyFitBestWithTheirLimits) {
  const auto simulation = land_on(4, sharing(kMps, 20), {pod("a", 10), pod("b", 15), pod("c", 10), pod("d", 5)});
  EXPECT_THAT(fates(simulation), ElementsAre("lands 10@0", "lands 15@1", "lands 10@0", "lands 5@1"));
  EXPECT_TRUE(simulation.all_land());
  const auto& limits = simulation.pods[0].holdings[0].devices[0].limits;
  EXPECT_EQ(limits.memory, mib(20000));
  EXPECT_EQ(limits.threads, Percent::whole(50));
  EXPECT_EQ(limits.sms, 54u);
  EXPECT_THAT(free_on(simulation), ElementsAre(0u, 0u, 20u, 20u));
  EXPECT_EQ(simulation.resources[0].devices[0].promised_memory, mib(40000));
  EXPECT_EQ(simulation.resources[0].devices[0].promised_sms, 108u);
  EXPECT_EQ(simulation.resources[0].largest, 20u);
}

// Promise: plan/simulate: A pod with claims is not predicted, and its slots count as taken.
TEST(Land, APodWithClaimsIsNotPredictedAndItsSlotsCountAsTaken) {
  auto claimed = pod("a", 6), large = pod("b", 6), none = pod("c", {{"main", Role::kMain, {}}});
  for (PodAsk* each : {&claimed, &large, &none}) each->claims = {"gpu"};
  const auto simulation = land_on(1, sharing(kMps, 10), {claimed, large, none, pod("d", 4)});
  EXPECT_THAT(fates(simulation), ElementsAre("unpredicted 6@0", "waits", "unpredicted", "lands 4@0"));
  EXPECT_THAT(simulation.pods[0].why, ElementsAre("uses the claim gpu: decided by kube-scheduler, not predicted"));
  EXPECT_THAT(simulation.pods[1].claims, ElementsAre("gpu"));
  EXPECT_FALSE(simulation.all_land());
}

TEST(Land, AResourceThatAClassCanMapIsNotPredictedWhereTheNodeHasDevicesForClaims) {
  config::Config config;
  config.dra.devices = config::DraDevices::kAll;
  const auto simulation = land_on(1, config, {pod("a", 1)});
  EXPECT_THAT(fates(simulation), ElementsAre("unpredicted"));
  EXPECT_THAT(simulation.pods[0].why, ElementsAre(HasSubstr("a DeviceClass can map it to a claim")));
}

// Promise: plan/simulate: A pod waits as a whole and later pods go on.
TEST(Land, APodWaitsWhenTheSchedulerCountsTooFewAndLaterOnesGoOn) {
  const auto simulation = land_on(1, sharing(kMps, 10), {pod("a", 6), pod("b", 6), pod("c", 4), pod("d", 11)});
  EXPECT_THAT(fates(simulation), ElementsAre("lands 6@0", "waits", "lands 4@0", "waits"));
  EXPECT_THAT(simulation.pods[1].why, ElementsAre("requests 6 of nvidia.com/gpu, of which 4 of 10 are free"));
  EXPECT_THAT(simulation.pods[1].lacks, ElementsAre(Lack{kGpu, 6, 4, 4}));
  EXPECT_THAT(simulation.pods[3].why, ElementsAre("requests 11 of nvidia.com/gpu, and the node has 10 in all"));
  EXPECT_FALSE(simulation.all_land());
  EXPECT_EQ(simulation.resources[0].stranded, 0u) << "there are too few, in whatever pieces";
}

// Promise: plan/simulate: Free slots in pieces are refused in Allocate's text.
TEST(Land, FreeSlotsInPiecesAreStrandedAndThePodIsRefusedInAllocatesWords) {
  const auto simulation = land_on(4, sharing(kMps, 20),
                                  {pod("a", 15), pod("b", 15), pod("c", 15), pod("d", 15), pod("e", 10), pod("f", 5)});
  EXPECT_THAT(fates(simulation),
              ElementsAre("lands 15@0", "lands 15@1", "lands 15@2", "lands 15@3", "refused", "lands 5@0"));
  EXPECT_THAT(simulation.pods[4].why,
              ElementsAre(AllOf(HasSubstr("the 10 slots of nvidia.com/gpu lie on 2 GPUs"),
                                HasSubstr("no GPU has 10 free slots (most free: 5 on GPU 0); ask for at most 5 now"))));
  EXPECT_THAT(simulation.pods[4].lacks, ElementsAre(Lack{kGpu, 10, 20, 5}));
  const auto& left = simulation.resources[0];
  EXPECT_EQ(left.free, 15u);
  EXPECT_EQ(left.largest, 5u);
  EXPECT_EQ(left.stranded, 15u);
  EXPECT_EQ(left.stranded_request, 10u);
}

TEST(Land, PodsGoToTheFirstNodeThatHasEnoughFree) {
  const auto config = sharing(kMps, 10);
  const auto inventory = node_of(1);
  const auto plan = plan::make_plan(config, inventory);
  ASSERT_TRUE(plan);
  const std::vector<PodAsk> pods{pod("a", 6), pod("b", 6), pod("c", 4)};
  const auto nodes = land_on_nodes(2, *plan, inventory, config, pods);
  EXPECT_THAT(fates(nodes[0]), ElementsAre("lands 6@0", "lands 4@0"));
  EXPECT_THAT(fates(nodes[1]), ElementsAre("lands 6@0"));
  EXPECT_EQ(needed_text(nodes), "every pod lands; 2 nodes are needed");
  EXPECT_EQ(needed_text(land_on_nodes(3, *plan, inventory, config, pods)), "every pod lands on 2 of 3 nodes");
  const auto too_many = land_on_nodes(2, *plan, inventory, config, {pod("a", 6), pod("b", 6), pod("c", 6)});
  EXPECT_THAT(fates(too_many[1]), ElementsAre("lands 6@0", "waits"));
  EXPECT_EQ(needed_text(too_many), "not every pod lands on 2 nodes");
}

TEST(Land, ARequestThatNoNodeWouldServeStrandsNothing) {
  const auto too_large = land_on(2, sharing(kMps, 4), {pod("a", 5)});
  EXPECT_THAT(too_large.pods[0].why, ElementsAre(HasSubstr("ask for at most 4 a container")));
  EXPECT_EQ(too_large.resources[0].stranded, 0u);
  const auto one_slot = land_on(2, sharing(kMps, 4, true), {pod("a", 2), pod("b", 1)});
  EXPECT_THAT(fates(one_slot), ElementsAre("refused", "lands 1@0"));
  EXPECT_THAT(one_slot.pods[0].why, ElementsAre(HasSubstr("failRequestsGreaterThanOne allows 1 a container")));
  EXPECT_EQ(one_slot.resources[0].largest, 1u);
  EXPECT_EQ(one_slot.resources[0].stranded, 0u);
}

TEST(Land, TimeSlicesAndWholeGpusMayLieAnywhere) {
  const auto slices = land_on(2, sharing(config::SharingStrategy::kTimeSlicing, 2), {pod("a", 3), pod("b", 1)});
  EXPECT_THAT(fates(slices), ElementsAre("lands 2@0 1@1", "lands 1@1"));
  const auto whole = land_on(3, sharing(config::SharingStrategy::kNone, 1), {pod("a", 2), pod("b", 2), pod("c", 1)});
  EXPECT_EQ(whole.pods[0].holdings[0].devices.size(), 2u);
  EXPECT_EQ(whole.pods[1].fate, Fate::kWaits);
  EXPECT_EQ(whole.pods[2].fate, Fate::kLands);
}

// Promise: plan/simulate: A pod waits as a whole and later pods go on.
TEST(Land, APodWaitsAsAWhole) {
  const auto simulation =
      land_on(1, sharing(kMps, 10),
              {pod("a", {{"x", Role::kMain, {{kGpu, 6}}}, {"y", Role::kMain, {{kGpu, 6}}}}), pod("b", 10)});
  EXPECT_THAT(fates(simulation), ElementsAre("waits", "lands 10@0"));
}

TEST(Land, WhatARefusedPodWasGivenIsFreeAgain) {
  const auto simulation = land_on(
      2, sharing(kMps, 10),
      {pod("a", 7), pod("b", {{"x", Role::kMain, {{kGpu, 2}}}, {"y", Role::kMain, {{kGpu, 11}}}}), pod("c", 10)});
  EXPECT_THAT(fates(simulation), ElementsAre("lands 7@0", "refused", "lands 10@1"));
  EXPECT_THAT(simulation.pods[1].why, ElementsAre(HasSubstr("y: the 11 slots of nvidia.com/gpu lie on 2 GPUs")));
  EXPECT_THAT(simulation.pods[1].holdings, testing::IsEmpty());
}

// Promise: plan/simulate: Init containers pass their devices on and sidecars keep theirs.
TEST(Land, InitContainersLeaveTheirDevicesToThoseThatFollow) {
  const auto simulation = land_on(1, sharing(kMps, 10),
                                  {pod("a", {{"load", Role::kInit, {{kGpu, 6}}},
                                             {"more", Role::kInit, {{kGpu, 8}}},
                                             {"main", Role::kMain, {{kGpu, 5}}}}),
                                   pod("b", 2)});
  EXPECT_THAT(fates(simulation), ElementsAre("lands 6@0 8@0 5@0", "lands 2@0"));
  const auto& holdings = simulation.pods[0].holdings;
  const std::set<std::string> most(holdings[1].slots.begin(), holdings[1].slots.end());
  for (const auto& slot : holdings[0].slots) EXPECT_TRUE(most.contains(slot));
  for (const auto& slot : holdings[2].slots) EXPECT_TRUE(most.contains(slot));
  EXPECT_THAT(free_on(simulation), ElementsAre(0u)) << "kubelet keeps all eight until the pod ends";
  EXPECT_EQ(simulation.resources[0].devices[0].promised_memory, mib(20000 + 8000)) << "of what runs";
}

// Promise: plan/simulate: Init containers pass their devices on and sidecars keep theirs.
TEST(Land, SidecarsKeepTheirDevices) {
  const std::vector<ContainerAsk> containers{
      {"beside", Role::kSidecar, {{kGpu, 3}}}, {"load", Role::kInit, {{kGpu, 6}}}, {"main", Role::kMain, {{kGpu, 4}}}};
  EXPECT_THAT(fates(land_on(1, sharing(kMps, 9), {pod("a", containers)})), ElementsAre("lands 3@0 6@0 4@0"));
  const auto waits = land_on(1, sharing(kMps, 8), {pod("a", containers)});
  EXPECT_THAT(waits.pods[0].why, ElementsAre("requests 9 of nvidia.com/gpu, and the node has 8 in all"));
}

// The devices of an init container must be used again, also where the rest of the request is on another GPU.
TEST(Land, AnInitContainerCanKeepTheMainOneFromAGpuOfItsOwn) {
  const auto simulation = land_on(
      2, sharing(kMps, 10),
      {pod("a", 7), pod("b", {{"load", Role::kInit, {{kGpu, 3}}}, {"main", Role::kMain, {{kGpu, 10}}}}), pod("c", 10)});
  EXPECT_THAT(fates(simulation), ElementsAre("lands 7@0", "refused", "lands 10@1"));
  EXPECT_THAT(simulation.pods[1].why, ElementsAre(HasSubstr("main: the 10 slots of nvidia.com/gpu lie on 2 GPUs")));
}

TEST(Land, AResourceThatTheNodeDoesNotHaveIsNamedByWhatItDoesHave) {
  auto config = sharing(kMps, 4);
  config.sharing.resources[0].rename = "nvidia.com/gpu.shared";
  const auto asks = [](std::string name, std::string resource) {
    return pod(std::move(name), {{"main", Role::kMain, {{std::move(resource), 1}}}});
  };
  const auto simulation = land_on(1, config,
                                  {pod("a", 1), asks("b", "nvidia.com/gpu.sharde"), asks("c", "nvidia.com/mig-1g.5gb"),
                                   asks("d", "nvidia.com/hostdev"), asks("e", "example.com/nic")});
  EXPECT_THAT(fates(simulation), ElementsAre("unknown", "unknown", "unknown"));
  EXPECT_THAT(
      simulation.pods[0].why,
      ElementsAre("requests 1 of nvidia.com/gpu, of which the node has none; it calls them nvidia.com/gpu.shared"));
  EXPECT_THAT(simulation.pods[1].why, ElementsAre(HasSubstr("did you mean nvidia.com/gpu.shared?")));
  EXPECT_THAT(simulation.pods[2].why, ElementsAre(HasSubstr("none; it has nvidia.com/gpu.shared")));
  EXPECT_EQ(simulation.others, 2u) << "names of other plugins are none of ours";
  EXPECT_EQ(simulation.resources.size(), 1u);
}

TEST(Land, PodsAtAnEndAndOnOtherNodesHoldNothing) {
  const auto inventory = node_of(1);
  const auto config = sharing(kMps, 10);
  const auto plan = plan::make_plan(config, inventory);
  ASSERT_TRUE(plan);
  std::vector<PodAsk> pods{pod("over", 10), pod("there", 10), pod("here", 4), pod("new", 6),
                           pod("cpu", std::vector<ContainerAsk>{})};
  pods[0].over = true;
  pods[1].node_name = "n2";
  pods[2].node_name = "n1";
  const auto simulation = land(*plan, inventory, config, pods, "n1");
  EXPECT_THAT(fates(simulation), ElementsAre("lands 4@0", "lands 6@0"));
  EXPECT_EQ(simulation.others, 2u);
  EXPECT_EQ(simulation.elsewhere, 1u);
  EXPECT_EQ(land(*plan, inventory, config, pods).elsewhere, 0u) << "without a name all are taken for this node's";
}

TEST(Land, ADeviceWhoseServerHasItsClientsTakesNoMoreContainers) {
  const auto inventory = node_of(2);
  const auto config = sharing(kMps, 10);
  auto plan = plan::make_plan(config, inventory);
  ASSERT_TRUE(plan);
  for (auto& pool : plan->pools) pool.max_clients = 2;
  std::vector<PodAsk> pods;
  for (const char* name : {"a", "b", "c", "d", "e"}) pods.push_back(pod(name, 2));
  pods.insert(pods.begin() + 1,
              pod("init", {{"x", Role::kInit, {{kGpu, 1}}}, {"y", Role::kMain, {{kGpu, 30}}}}));  // refused: no client
  const auto simulation = land(*plan, inventory, config, pods);
  EXPECT_EQ(simulation.count(Fate::kLands), 4u);
  EXPECT_EQ(simulation.pods.back().fate, Fate::kRefused);
  EXPECT_THAT(simulation.pods.back().why, ElementsAre(HasSubstr("takes 2 clients")));
  EXPECT_EQ(simulation.resources[0].largest, 0u);
}

TEST(Land, AGrantMaySpanTheGpusOfAJoinedPool) {
  const auto inventory = node_of(2);
  const auto config = sharing(kMps, 10);
  auto plan = plan::make_plan(config, inventory);
  ASSERT_TRUE(plan);
  auto& resource = plan->resources[0];
  resource.split = config::SplitPolicy::kSpan;
  plan->pools[0].devices.push_back(plan->pools[1].devices[0]);
  plan->pools[0].limits.push_back(plan->pools[1].limits[0]);
  plan->pools.pop_back();
  for (auto& device : resource.devices) device.pool = plan->pools[0].id;
  const auto simulation = land(*plan, inventory, config, {pod("a", 7), pod("b", 8), pod("c", 5)});
  EXPECT_THAT(fates(simulation), ElementsAre("lands 7@0", "lands 8@1", "lands 3@0 2@1"));
  const auto& on = simulation.pods[2].holdings[0].devices;
  EXPECT_EQ(on[0].limits.memory, mib(12000));
  EXPECT_EQ(on[1].limits.memory, mib(8000));
  EXPECT_TRUE(simulation.pods[2].notes.empty());
}

TEST(Land, AContainerWithSlotsOfTwoPoolsIsWarnedOf) {
  const auto inventory = node_of(2);
  const auto config = sharing(kMps, 10);
  auto plan = plan::make_plan(config, inventory);
  ASSERT_TRUE(plan);
  auto second = plan->resources[0];
  second.name = second.original_name = "nvidia.com/gpu1";
  second.devices.erase(second.devices.begin());
  plan->resources[0].devices.pop_back();
  plan->resources.push_back(second);
  const auto simulation =
      land(*plan, inventory, config, {pod("a", {{"m", Role::kMain, {{kGpu, 5}, {"nvidia.com/gpu1", 5}}}})});
  EXPECT_THAT(fates(simulation), ElementsAre("lands 5@0 5@1"));
  EXPECT_THAT(simulation.pods[0].notes,
              ElementsAre(AllOf(HasSubstr("container m holds slots of the pools "), HasSubstr("split: span"))));
}

TEST(Land, ANodeWithoutGpusHasNothing) {
  const auto simulation = land_on(0, sharing(config::SharingStrategy::kNone, 1), {pod("a", 1)});
  EXPECT_THAT(fates(simulation), ElementsAre("unknown"));
  EXPECT_THAT(simulation.pods[0].why, ElementsAre(HasSubstr("it has no devices at all")));
}

}  // namespace
}  // namespace tranche::simulate
