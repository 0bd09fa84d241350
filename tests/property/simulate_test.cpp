// What must hold wherever pods land.
#include <gmock/gmock.h>

#include <map>
#include <set>

#include "plan/plan.h"
#include "plan/shares.h"
#include "property/generate.h"
#include "simulate/land.h"

namespace tranche::property {
namespace landing_test {

const std::uint32_t kRounds = rounds(100);
using simulate::Fate;
using simulate::Role;

struct Case {
  config::Config config;
  gpu::Inventory inventory;
  plan::Plan plan;
  std::vector<simulate::PodAsk> pods;
};

simulate::ContainerAsk any_container(Random& random, const plan::Plan& plan, std::uint32_t number) {
  static const std::vector<Role> kRoles{Role::kInit, Role::kSidecar, Role::kMain, Role::kMain};
  simulate::ContainerAsk container{"c" + std::to_string(number), random.one_of(kRoles), {}};
  for (std::uint32_t n = random.number(1, 2); n > 0; --n) {
    const auto& resource = random.one_of(plan.resources);
    const std::uint32_t most = resource.devices.empty() ? 1 : resource.devices.front().slots + 1;
    container.resources[resource.name] = random.number(1, random.chance(80) ? std::min(4u, most) : most);
  }
  return container;
}

std::vector<simulate::PodAsk> any_pods(Random& random, const plan::Plan& plan) {
  std::vector<simulate::PodAsk> pods;
  for (std::uint32_t i = 0; i < random.number(1, 30); ++i) {
    simulate::PodAsk pod;
    pod.name = "p" + std::to_string(i);
    for (std::uint32_t c = random.chance(70) ? 1 : random.number(1, 4); c > 0; --c)
      pod.containers.push_back(any_container(random, plan, c));
    std::ranges::stable_partition(pod.containers, [](const auto& c) { return c.role != Role::kMain; });
    pods.push_back(std::move(pod));
  }
  return pods;
}

template <class Visit>
void for_each_case(const Visit& visit) {
  std::uint32_t made = 0;
  for (std::uint32_t seed = 1; seed <= kRounds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    Case c{any_config(random), any_inventory(random), {}, {}};
    const auto plan = plan::make_plan(c.config, c.inventory);
    if (!plan || plan->resources.empty()) continue;
    c.plan = *plan;
    c.pods = any_pods(random, c.plan);
    ++made;
    visit(random, c);
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(made, kRounds / 3);
}

// Slot ids that one pod holds of each resource; its containers may share those of init containers.
std::map<std::string, std::set<std::string>> held_by(const simulate::PodOutcome& pod) {
  std::map<std::string, std::set<std::string>> held;
  for (const auto& holding : pod.holdings) held[holding.resource].insert(holding.slots.begin(), holding.slots.end());
  return held;
}

// Promise: plan/simulate: No slot is given twice and no device more than it has.
TEST(SimulationProperty, NoSlotIsGivenTwiceAndNoDeviceMoreThanItHas) {
  for_each_case([](auto&, const Case& c) {
    const auto simulation = simulate::land(c.plan, c.inventory, c.config, c.pods);
    std::map<std::string, std::set<std::string>> taken;
    for (const auto& pod : simulation.pods)
      for (const auto& [resource, slots] : held_by(pod))
        for (const auto& slot : slots) EXPECT_TRUE(taken[resource].insert(slot).second) << slot << " for " << pod.name;
    for (const auto& left : simulation.resources) {
      std::uint64_t sum = 0;
      for (const auto& device : left.devices) {
        EXPECT_LE(device.taken, device.slots);
        sum += device.taken;
      }
      EXPECT_EQ(sum, taken[left.resource].size());
      EXPECT_EQ(left.free, left.slots - sum);
      EXPECT_LE(left.largest, left.free);
      EXPECT_TRUE(left.stranded == 0 ||
                  (left.stranded == left.free && left.stranded_request <= left.free && left.stranded_request > 0));
    }
  });
}

// Promise: plan/simulate: A pod that lands has what it asked for and one that does not has nothing.
TEST(SimulationProperty, APodThatLandsHasWhatItAskedAndOneThatDoesNotHasNothing) {
  for_each_case([](auto&, const Case& c) {
    const auto simulation = simulate::land(c.plan, c.inventory, c.config, c.pods);
    ASSERT_EQ(simulation.pods.size(), c.pods.size());
    for (std::size_t i = 0; i < c.pods.size(); ++i) {
      const auto& pod = simulation.pods[i];
      EXPECT_EQ(pod.fate == Fate::kLands, pod.why.empty());
      if (pod.fate != Fate::kLands) {
        EXPECT_TRUE(pod.holdings.empty());
        EXPECT_FALSE(pod.lacks.empty());
        continue;
      }
      std::map<std::pair<std::string, std::string>, std::uint64_t> got;
      for (const auto& holding : pod.holdings) {
        EXPECT_FALSE(got.contains({holding.container, holding.resource}));
        got[{holding.container, holding.resource}] = holding.slots.size();
        std::uint64_t on_devices = 0;
        for (const auto& on : holding.devices) on_devices += on.slots;
        EXPECT_EQ(on_devices, holding.slots.size());
      }
      std::size_t asked = 0;
      for (const auto& container : c.pods[i].containers) {
        asked += container.resources.size();
        for (const auto& [resource, count] : container.resources)
          EXPECT_EQ((got[{container.name, resource}]), count) << container.name;
      }
      EXPECT_EQ(got.size(), asked);
    }
  });
}

// Containers that run together hold different slots, and those of one that runs after an init container may be its own.
TEST(SimulationProperty, WhatRunsTogetherSharesNoSlot) {
  for_each_case([](auto&, const Case& c) {
    for (const auto& pod : simulate::land(c.plan, c.inventory, c.config, c.pods).pods) {
      std::set<std::string> running;  // sidecars so far, then the main containers too
      for (const auto& holding : pod.holdings) {
        for (const auto& slot : holding.slots) {
          EXPECT_FALSE(running.contains(holding.resource + slot)) << slot << " of " << pod.name;
          if (holding.role != Role::kInit) running.insert(holding.resource + slot);
        }
      }
    }
  });
}

// Promise: plan/simulate: Equal inputs land alike, and a later pod changes no earlier one.
TEST(SimulationProperty, EqualInputsLandAlikeAndAPodBehindChangesNothingBefore) {
  for_each_case([](auto&, const Case& c) {
    const auto first = simulate::land(c.plan, c.inventory, c.config, c.pods);
    EXPECT_EQ(first, simulate::land(c.plan, c.inventory, c.config, c.pods));
    auto fewer = c.pods;
    fewer.pop_back();
    const auto second = simulate::land(c.plan, c.inventory, c.config, fewer);
    for (std::size_t i = 0; i < fewer.size(); ++i) EXPECT_EQ(first.pods[i], second.pods[i]);
  });
}

// Under MPS with one GPU a container, the limits are those of the slots on it.
TEST(SimulationProperty, TheLimitsAreTheShareOfTheSlotsHeld) {
  for_each_case([](auto&, const Case& c) {
    for (const auto& pod : simulate::land(c.plan, c.inventory, c.config, c.pods).pods) {
      for (const auto& holding : pod.holdings) {
        if (holding.devices.size() > 1) continue;  // one percentage for all of them: allocate's to test
        const auto* resource = plan::find_resource(c.plan, holding.resource);
        for (const auto& on : holding.devices) {
          const auto device = std::ranges::find(resource->devices, on.uuid, &plan::PlannedDevice::uuid);
          const bool limited = resource->sharing == config::SharingStrategy::kMps && !device->pool.empty();
          EXPECT_EQ(on.limits, limited ? plan::share_of(*device, on.slots) : plan::ShareLimits{});
        }
      }
    }
  });
}

}  // namespace landing_test
}  // namespace tranche::property
