// What holds for every plan, over seeded random nodes and configurations; the seed stands in every failure.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "plan/json.h"
#include "plan/make_plan.h"
#include "plan/shares.h"

namespace tranche::plan {
namespace {

using config::SharingStrategy;

class Dice {
 public:
  explicit Dice(std::uint32_t seed) : engine_(seed) {}
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(engine_()) % n; }
  std::uint32_t between(std::uint32_t low, std::uint32_t high) { return low + below(high - low + 1); }
  std::string hex(int digits) {
    std::string text;
    for (int i = 0; i < digits; ++i) text += "0123456789abcdef"[below(16)];
    return text;
  }

 private:
  std::mt19937 engine_;
};

inventory::Gpu random_gpu(Dice& dice, std::uint32_t index) {
  struct Model {
    const char* name;
    inventory::ComputeCapability capability;
    std::uint32_t sms;
    std::uint64_t mib;
  };
  static constexpr Model kModels[] = {{"NVIDIA H200", {9, 0}, 132, 143771},     {"Tesla T4", {7, 5}, 40, 15360},
                                      {"Tesla V100", {7, 0}, 80, 16384},        {"NVIDIA A100", {8, 0}, 108, 40960},
                                      {"NVIDIA DGX Display", {7, 5}, 14, 4096}, {"Unknown", {9, 0}, 0, 0}};
  const Model& model = kModels[dice.below(std::size(kModels))];
  inventory::Gpu gpu;
  gpu.uuid = "GPU-" + dice.hex(8) + "-" + dice.hex(4);
  gpu.index = gpu.minor = index;
  gpu.name = model.name;
  gpu.compute_capability = model.capability;
  gpu.sm_count = model.sms;
  gpu.memory = model.mib == 0 ? Bytes{} : Bytes{(model.mib << 20) + dice.below(1 << 20)};
  gpu.mig_enabled = dice.below(8) == 0;
  return gpu;
}

inventory::Inventory random_node(Dice& dice, std::uint32_t gpus) {
  inventory::Inventory inventory;
  for (std::uint32_t i = 0; i < gpus; ++i) inventory.gpus.push_back(random_gpu(dice, i));
  return inventory;
}

config::Config random_config(Dice& dice) {
  config::Config config;
  config.sharing.strategy = static_cast<SharingStrategy>(dice.below(3));
  config.sharing.fail_requests_greater_than_one = dice.below(2) == 0;
  config.sharing.sm_rounding = static_cast<config::SmRounding>(dice.below(3));
  config::SharedResource entry;
  entry.name = "nvidia.com/gpu";
  entry.replicas = dice.between(2, 50);
  if (dice.below(2) == 0) entry.rename = "nvidia.com/gpu.shared";
  config.sharing.resources = {entry};
  return config;
}

void check_device(const config::Config& config, const Plan& plan, const PlannedResource& resource,
                  const PlannedDevice& device) {
  EXPECT_LE(device.share.memory.value * device.slots, device.memory.value);
  EXPECT_LE(device.share.threads, Percent::whole(100));
  if (config.sharing.sm_rounding == config::SmRounding::kOff) {
    EXPECT_LE(device.share.threads.hundredths * device.slots, 10000u);
  }
  const PlannedPool* pool = find_pool(plan, device.pool);
  EXPECT_EQ(pool != nullptr, resource.sharing == SharingStrategy::kMps);
  if (pool == nullptr) return;
  EXPECT_GT(device.share.threads.hundredths, 0u) << "0 would mean no limit";
  EXPECT_EQ(device.share.memory.value == 0, device.memory.value == 0);
  ASSERT_EQ(pool->limits.size(), 1u);
  EXPECT_GE(pool->limits[0].client.memory, device.share.memory) << "the daemon's limit must not undercut a slot";
  EXPECT_GE(pool->limits[0].client.threads, device.share.threads);
  EXPECT_LE(device.slots, pool->max_clients);
}

TEST(PlanProperty, HoldsForEveryNodeAndConfiguration) {
  std::size_t planned = 0;
  for (std::uint32_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Dice dice(seed);
    const auto inventory = random_node(dice, dice.between(0, 16));
    const config::Config config = random_config(dice);
    const auto plan = make_plan(config, inventory);
    if (!plan) {
      ASSERT_FALSE(plan.error().empty());
      ASSERT_EQ(config.sharing.strategy, SharingStrategy::kMps);
      continue;
    }
    ++planned;
    EXPECT_EQ(to_json(*plan).dump(), to_json(make_plan(config, inventory).value()).dump());
    std::size_t devices = 0;
    std::set<std::string> seen;
    for (const PlannedResource& resource : plan->resources) {
      EXPECT_EQ(find_resource(*plan, resource.name), &resource);
      for (const PlannedDevice& device : resource.devices) {
        check_device(config, *plan, resource, device);
        EXPECT_TRUE(seen.insert(device.uuid).second) << "advertised twice";
        ++devices;
      }
    }
    EXPECT_EQ(devices + plan->left_out.size(), inventory.gpus.size()) << "every GPU is there or left out with a reason";
  }
  EXPECT_GT(planned, 250u);
}

TEST(PlanProperty, AnotherGpuChangesNothingForTheFirst) {
  for (std::uint32_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Dice dice(seed);
    auto inventory = random_node(dice, dice.between(1, 8));
    const config::Config config = random_config(dice);
    const auto before = make_plan(config, inventory);
    inventory.gpus.push_back(random_gpu(dice, static_cast<std::uint32_t>(inventory.gpus.size())));
    const auto after = make_plan(config, inventory);
    if (!before || !after) continue;
    for (const PlannedResource& resource : before->resources) {
      const PlannedResource* again = find_resource(*after, resource.name);
      ASSERT_NE(again, nullptr);
      ASSERT_GE(again->devices.size(), resource.devices.size());
      for (std::size_t i = 0; i < resource.devices.size(); ++i) EXPECT_EQ(again->devices[i], resource.devices[i]);
    }
  }
}

}  // namespace
}  // namespace tranche::plan
