#include "node/decide.h"
#include "make.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <random>

namespace tranche::node {
namespace decide_test {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const std::string kResource = "nvidia.com/gpu";

config::Config shared(config::SharingStrategy strategy, std::uint32_t replicas) {
  auto config = make::shared(strategy, replicas, kResource);
  config.sharing.fail_requests_greater_than_one = strategy == config::SharingStrategy::kMps;
  return config;
}

// A node of two GPUs whose inputs are made up.
struct Node {
  explicit Node(config::Config config) {
    in.config.config = std::move(config);
    in.inventory.emplace();
    for (const char* uuid : {"GPU-a", "GPU-b"}) {
      auto& gpu = in.inventory->gpus.emplace_back();
      gpu.uuid = uuid;
      gpu.index = gpu.minor = static_cast<std::uint32_t>(in.inventory->gpus.size() - 1);
      gpu.name = "NVIDIA H200";
      gpu.memory = {150754820096};
      gpu.compute_capability = {9, 0};
      gpu.sm_count = 132;
    }
    health.on_inventory(*in.inventory, {}, now);
  }
  Decided next(Inputs::Fresh fresh) {
    fresh.offer = fresh.offer || fresh.plan;
    in.fresh = fresh;
    auto decided = decide(in, {ledger, health, change, pools, pods}, decision, now);
    decision = decided.decision;
    return decided;
  }
  Decided listed(std::vector<grants::Held> holdings) {
    now += 1min;
    in.holdings = holdings;
    in.holdings_read = now;
    ledger.listed(holdings, now);
    change.answered(true, true);
    return next({.offer = true, .holdings = true});
  }
  std::size_t healthy() const {
    std::size_t count = 0;
    for (const auto& list : decision.advertised)
      for (const auto& slot : list.slots) count += slot.healthy ? 1 : 0;
    return count;
  }
  config::SharingStrategy sharing() const { return decision.plan.resources.at(0).sharing; }

  MonoTime now{};
  Inputs in;
  grants::Ledger ledger;
  GpuHealth health{{}, {5min}};
  PlanChange change{ledger};
  PoolEvents pools;
  kube::PodTable pods;
  Decision decision;
};

const grants::Held kHolding{"default", "train", "main", kResource, {"GPU-a::1"}};

TEST(Decide, ALostGpuIsWithdrawnAndItsSlotsStayHeld) {
  Node node(shared(config::SharingStrategy::kTimeSlicing, 4));
  node.next({.plan = true});
  node.listed({kHolding});
  EXPECT_EQ(node.healthy(), 8u);
  EXPECT_EQ(node.decision.condition.reason, "NotRegistered");
  node.health.on_event({.what = gpu::GpuEvent::What::kLost, .gpu_uuid = "GPU-a", .why = "it fell off the bus"},
                       *node.in.inventory, node.now);
  const auto decided = node.next({.offer = true});
  EXPECT_EQ(node.healthy(), 4u);
  ASSERT_THAT(decided.health, SizeIs(1));
  ASSERT_THAT(decided.events, SizeIs(1));
  EXPECT_THAT(decided.events[0].message, HasSubstr("GPU-a"));
  EXPECT_FALSE(decided.change.plan) << "the GPU stays in the plan";
  ASSERT_THAT(node.decision.holders, SizeIs(1));
  EXPECT_EQ(node.decision.holders[0].pod, "train");
  EXPECT_EQ(node.ledger.held().size(), 1u);
  EXPECT_THAT(node.next({.offer = true}).events, IsEmpty()) << "once";
}

TEST(Decide, AConfigurationThatDoesNotFitLeavesTheEnforcedPlan) {
  Node node(shared(config::SharingStrategy::kTimeSlicing, 4));
  node.next({.plan = true});
  node.listed({});
  const auto before = node.decision.plan;
  node.in.config.config = shared(config::SharingStrategy::kMps, 1000);  // more than MPS has clients
  const auto decided = node.next({.plan = true});
  EXPECT_TRUE(decided.problems);
  EXPECT_FALSE(decided.change.plan);
  EXPECT_EQ(node.decision.plan, before);
  EXPECT_EQ(node.healthy(), 8u);
  EXPECT_EQ(node.decision.condition.reason, "ConfigRefused");
  EXPECT_FALSE(node.next({.plan = true}).problems) << "the same problems are not reported again";
}

TEST(Decide, AGpuThatAClaimHoldsTakesNoPodsThoughThePlanGivesItToThePlugin) {
  Node node(shared(config::SharingStrategy::kTimeSlicing, 4));
  node.in.claims.emplace();
  auto& claim = node.in.claims->prepared["uid-1"];
  claim.name = {.claim_namespace = "default", .name = "half", .uid = "uid-1"};
  claim.parts.emplace_back().gpu_uuid = "GPU-b";
  node.next({.plan = true});
  node.listed({});
  EXPECT_EQ(node.healthy(), 4u);
  EXPECT_THAT(node.decision.faults.devices.at("GPU-b").why, HasSubstr("the claim default/half"));
  node.in.claims->prepared.clear();
  node.next({.offer = true});
  EXPECT_EQ(node.healthy(), 8u);
}

TEST(Decide, AChangeWaitsForKubeletToListNoHolder) {
  Node node(shared(config::SharingStrategy::kTimeSlicing, 4));
  node.next({.plan = true});
  node.listed({kHolding});
  node.in.config.config = shared(config::SharingStrategy::kMps, 4);
  auto decided = node.next({.plan = true});
  EXPECT_THAT(decided.change.steps, Contains(testing::Field(&grants::Step::waits_for, testing::Not(IsEmpty()))));
  EXPECT_EQ(node.decision.condition.reason, "NotRegistered");
  EXPECT_THAT(decided.change.other_holders->devices, ElementsAre("GPU-a"));
  EXPECT_FALSE(node.decision.withheld.empty());
  node.listed({});
  EXPECT_TRUE(node.change.awaits_kubelet()) << "one list without a grant may be kubelet's start";
  decided = node.listed({});
  EXPECT_TRUE(decided.change.plan);
  EXPECT_TRUE(decided.change.done);
  EXPECT_EQ(node.sharing(), config::SharingStrategy::kMps);
  EXPECT_THAT(node.decision.plan.pools, SizeIs(2));
  EXPECT_TRUE(decided.change.other_holders->devices.empty());
}

TEST(Decide, WithoutFreshInputsThePlanAndTheSlotsStay) {
  Node node(shared(config::SharingStrategy::kTimeSlicing, 4));
  node.next({.plan = true});
  node.in.config.config = shared(config::SharingStrategy::kTimeSlicing, 2);
  node.health.on_event({.what = gpu::GpuEvent::What::kLost, .gpu_uuid = "GPU-a", .why = ""}, *node.in.inventory,
                       node.now);
  const auto decided = node.next({});
  EXPECT_EQ(node.healthy(), 8u);
  EXPECT_FALSE(decided.change.other_holders);
  EXPECT_THAT(decided.health, IsEmpty());
}

// What may come to a node whose containers hold slots. Each event writes its own input.
using Event = std::function<Inputs::Fresh(Node&)>;

Inputs::Fresh configure(Node& node, std::uint32_t replicas, config::SharingStrategy strategy) {
  node.in.config.config = shared(strategy, replicas);
  return {.plan = true};
}

Inputs::Fresh is_lost(Node& node, const std::string& uuid) {
  node.health.on_event({.what = gpu::GpuEvent::What::kLost, .gpu_uuid = uuid, .why = "it fell off the bus"},
                       *node.in.inventory, node.now);
  return {.offer = true};
}

Inputs::Fresh is_claimed(Node& node, const std::string& uuid) {
  auto& claim = node.in.claims.emplace().prepared["uid-1"];
  claim.name = {.claim_namespace = "default", .name = "half", .uid = "uid-1"};
  claim.parts.emplace_back().gpu_uuid = uuid;
  return {.offer = true};
}

Inputs::Fresh has_pool(Node& node, const std::string& id) {
  node.in.pools.connected = true;
  node.in.pools.pools[id].state = "serving";
  return {.offer = true};
}

std::vector<Event> any_events(std::mt19937& random) {
  const std::string gpu = random() % 2 == 0 ? "GPU-a" : "GPU-b";
  const auto replicas = static_cast<std::uint32_t>(random() % 1000 + 2);  // of MPS, too many is refused
  const auto strategy = random() % 2 == 0 ? config::SharingStrategy::kMps : config::SharingStrategy::kTimeSlicing;
  std::vector<Event> all{
      [=](Node& node) { return configure(node, replicas, strategy); },
      [=](Node& node) { return is_lost(node, gpu); },
      [=](Node& node) { return is_claimed(node, gpu); },
      [=](Node& node) { return has_pool(node, gpu); },
      [=](Node& node) {
        node.in.withdrawn[gpu] = "the MIG manager removes it";
        return Inputs::Fresh{.offer = true};
      },
      [](Node& node) {
        node.in.driver_problem = "it does not answer";
        return Inputs::Fresh{.offer = true};
      },
      [](Node& node) {
        node.in.node_block = "a control node is missing";
        return Inputs::Fresh{.plan = true};
      },
  };
  std::ranges::shuffle(all, random);
  all.resize(random() % all.size() + 1);
  return all;
}

// The step is a function of the inputs and the ledger, not of the order in which the inputs came.
TEST(Decide, EventsInAnyOrderEndInTheDecisionOfOneBatch) {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const auto events = any_events(random);
    const auto first = shared(config::SharingStrategy::kTimeSlicing, 4);
    Node one_by_one(first), at_once(first);
    for (Node* node : {&one_by_one, &at_once}) {
      node->next({.plan = true});
      node->listed({kHolding});
    }
    Inputs::Fresh all;
    for (const auto& event : events) {
      one_by_one.next(event(one_by_one));
      const auto fresh = event(at_once);
      all.plan = all.plan || fresh.plan;
    }
    all.offer = true;
    at_once.next(all);
    const Decision& a = one_by_one.decision;
    const Decision& b = at_once.decision;
    EXPECT_TRUE(a.plan == b.plan && a.withheld == b.withheld && a.change == b.change) << "seed " << seed;
    EXPECT_TRUE(a.faults.devices == b.faults.devices && a.plan_problems == b.plan_problems) << "seed " << seed;
    EXPECT_TRUE(a.advertised == b.advertised && a.holders == b.holders && a.condition == b.condition)
        << "seed " << seed;
    if (HasFailure()) return;
  }
}

}  // namespace decide_test
}  // namespace tranche::node
