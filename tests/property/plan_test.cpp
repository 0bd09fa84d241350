// What must hold for every plan, whatever the configuration and the hardware.
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>

#include <nlohmann/json.hpp>
#include "grants/allocate/grant.h"

#include "plan/plan.h"
#include "plan/shares.h"
#include "property/generate.h"

namespace tranche::property {
namespace plan_test {

const std::uint32_t kRounds = rounds(400);

// Calls visit(random, config, inventory, plan) for many plans that hold.
template <class Visit>
void for_each_plan(const Visit& visit) {
  std::uint32_t made = 0;
  for (std::uint32_t seed = 1; seed <= kRounds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const auto config = any_config(random);
    const auto inventory = any_inventory(random);
    const auto plan = plan::make_plan(config, inventory);
    if (!plan) {
      EXPECT_TRUE(has_error(plan.error()));
      continue;
    }
    ++made;
    visit(random, config, inventory, *plan);
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(made, kRounds / 2) << "too few configurations made a plan to have tested anything";
}

// What the sum over all slots of a device may come to at the most.
std::uint64_t most_memory(const plan::PlannedDevice& device) {
  using Kind = config::MemoryPolicy::Kind;
  const auto& policy = device.policy.memory;
  const std::uint64_t divided = plan::divisible(device.memory, device.policy.reserve).value;
  switch (policy.kind) {
    case Kind::kFactor:  // at least one MiB a slot
      return std::max(divided * policy.factor_hundredths / 100, mib(device.slots).value);
    case Kind::kSize:
      return policy.size.value * device.slots;
    case Kind::kOpen:
      return device.memory.value * device.slots;
    default:
      return divided;
  }
}

// Promise: plan/shares: Shares of all slots stay within the policy.
TEST(PlanProperty, SharesOfAllSlotsStayWithinThePolicy) {
  using Kind = config::ThreadsPolicy::Kind;
  for_each_plan([](auto&, const auto& config, const auto&, const auto& plan) {
    for (const auto& resource : plan.resources) {
      if (resource.sharing != config::SharingStrategy::kMps) continue;
      for (const auto& device : resource.devices) {
        EXPECT_LE(device.share.memory.value * device.slots, most_memory(device)) << device.index;
        EXPECT_LE(device.share.memory, device.memory);
        EXPECT_GT(device.share.memory.value, 0u);
        EXPECT_GT(device.share.threads.hundredths, 0u);
        if (config.sharing.sm_rounding != config::SmRounding::kOff) continue;
        const auto& threads = device.policy.threads;
        const bool equal = threads.kind == Kind::kEqual || threads.kind == Kind::kTenant;
        if (equal || threads.kind == Kind::kFactor) {
          const std::uint64_t most = 100 * std::uint64_t{equal ? 100 : threads.factor_hundredths};
          // Nothing is rounded to nothing: at least a hundredth, or a percent of a whole percentage.
          const std::uint64_t least = std::uint64_t{device.slots} * (device.slots > 100 ? 1 : 100);
          EXPECT_LE(std::uint64_t{device.share.threads.hundredths} * device.slots, std::max(most, least));
        }
      }
    }
  });
}

TEST(PlanProperty, MoreSlotsNeverHaveLess) {
  for_each_plan([](auto&, const auto&, const auto&, const auto& plan) {
    for (const auto& resource : plan.resources) {
      if (resource.sharing != config::SharingStrategy::kMps) continue;
      for (const auto& device : resource.devices) {
        plan::ShareLimits before;
        for (std::uint32_t held = 1; held <= device.slots; held += 1 + device.slots / 50) {
          const auto now = plan::share_of(device, held);
          EXPECT_GE(now.memory, before.memory);
          EXPECT_GE(now.sms, before.sms) << held << " of " << device.slots;
          EXPECT_LE(now.memory, device.memory);
          EXPECT_LE(now.threads, Percent::whole(100));
          before = now;
        }
        const bool equal = device.policy.threads.kind == config::ThreadsPolicy::Kind::kEqual;
        if (equal) {
          EXPECT_EQ(plan::share_of(device, device.slots).threads, Percent::whole(100)) << "all slots are the whole GPU";
        }
      }
    }
  });
}

TEST(PlanProperty, EveryGpuIsInOneResourceOrLeftOut) {
  for_each_plan([](auto&, const auto&, const auto& inventory, const auto& plan) {
    std::map<std::string, int> seen;
    for (const auto& resource : plan.resources)
      for (const auto& device : resource.devices) ++seen[device.uuid];
    for (const auto& gpu : inventory.gpus) {
      const bool left_out = std::ranges::any_of(
          plan.left_out, [&](const auto& left) { return left.what.find(gpu.uuid) != std::string::npos; });
      EXPECT_EQ(seen[gpu.uuid], left_out ? 0 : 1) << gpu.uuid;
    }
  });
}

TEST(PlanProperty, RoundedSharesUseOnlyTrustedSmCounts) {
  for_each_plan([](auto&, const auto& config, const auto&, const auto& plan) {
    if (config.sharing.sm_rounding == config::SmRounding::kOff) return;
    for (const auto& resource : plan.resources) {
      if (resource.sharing != config::SharingStrategy::kMps) continue;
      for (const auto& device : resource.devices) {
        const auto trusted = plan::trusted_sm_counts(device.compute_capability, device.sm_count);
        EXPECT_TRUE(plan::is_trusted(device.share.sms, trusted)) << device.share.sms << " SMs";
      }
    }
  });
}

// Promise: plan/shares: Equal inputs give byte-equal plans.
TEST(PlanProperty, EqualInputsGiveByteEqualPlans) {
  for_each_plan([](auto&, const auto& config, const auto& inventory, const auto& plan) {
    const auto again = plan::make_plan(config, inventory);
    ASSERT_TRUE(again);
    EXPECT_EQ(nlohmann::ordered_json(plan).dump(), nlohmann::ordered_json(*again).dump());
  });
}

// Promise: driver/scan: Adding a GPU changes no ids or shares of the others.
TEST(PlanProperty, AddingAGpuChangesNoOtherGpusIdsOrShares) {
  for_each_plan([](Random& random, const auto& config, auto inventory, const auto& plan) {
    const auto before = plan::advertise(plan, {});
    if (config.sharing.per_device) return;  // a count or an index may well mean the new one
    inventory.gpus.push_back(any_gpu(random, static_cast<std::uint32_t>(inventory.gpus.size())));
    const auto more = plan::make_plan(config, inventory);
    if (!more) return;  // the new GPU may not bear that many slots: said as a Problem
    for (const auto& resource : plan.resources) {
      const auto* now = plan::find_resource(*more, resource.name);
      ASSERT_NE(now, nullptr);
      for (const auto& device : resource.devices) {
        auto same = device;
        const auto at = std::ranges::find(now->devices, device.uuid, &plan::PlannedDevice::uuid);
        ASSERT_NE(at, now->devices.end()) << device.uuid;
        if (resource.split == config::SplitPolicy::kSpan) same.pool = at->pool;  // another set is another pool
        EXPECT_EQ(*at, same) << "device " << device.uuid << " changed";
      }
    }
    (void)before;
  });
}

TEST(PlanProperty, IdsAreUniqueAndReadBack) {
  for_each_plan([](auto&, const auto&, const auto&, const auto& plan) {
    std::set<std::string> seen;
    for (const auto& list : plan::advertise(plan, {})) {
      for (const auto& slot : list.slots) {
        EXPECT_TRUE(seen.insert(slot.id).second) << slot.id;
        EXPECT_LE(slot.id.size(), 63u) << "kubelet's limit for a device id";
        const auto parsed = plan::parse_slot_id(slot.id);
        ASSERT_TRUE(parsed) << slot.id;
        EXPECT_EQ(plan::render(*parsed), slot.id);
      }
    }
  });
}

TEST(PlanProperty, PoolsHaveNamesOfTheirOwnAndServeEveryMpsDevice) {
  for_each_plan([](auto&, const auto&, const auto&, const auto& plan) {
    std::set<std::string> ids;
    std::set<std::string> served;
    for (const auto& pool : plan.pools) {
      EXPECT_TRUE(ids.insert(pool.id).second) << pool.id;
      EXPECT_EQ(pool.devices.size(), pool.limits.size());
      for (std::size_t i = 0; i < pool.devices.size(); ++i) EXPECT_EQ(pool.devices[i], pool.limits[i].uuid);
      for (const auto& uuid : pool.devices) EXPECT_TRUE(served.insert(uuid).second) << uuid << " is in two pools";
    }
    for (const auto& resource : plan.resources) {
      for (const auto& device : resource.devices) {
        if (resource.sharing == config::SharingStrategy::kMps && device.replicated) {
          EXPECT_NE(plan::find_pool(plan, device.pool), nullptr) << device.uuid;
        } else {
          EXPECT_EQ(device.pool, "");
        }
      }
    }
  });
}

TEST(PlanProperty, NoGrantExceedsItsPoolAndAllComputeRight) {
  for_each_plan([](Random& random, const auto& config, const auto& inventory, const auto& plan) {
    for (const auto& resource : plan.resources) {
      if (resource.devices.empty()) continue;  // the old name of a renamed resource
      const auto& device = random.one_of(resource.devices);
      std::vector<std::string> ids;
      const std::uint32_t held = resource.one_slot_per_request ? 1 : random.number(1, device.slots);
      for (std::uint32_t n = 0; n < held; ++n)
        ids.push_back(plan::render({device.uuid, device.replicated ? std::optional(n) : std::nullopt}));
      grants::Settings settings;
      settings.flags = config.flags;
      const auto grant = grants::allocate(resource, {}, ids, settings);
      if (!grant && plan::share_of(device, held).memory < plan::kSmallestContext) continue;  // too few units
      ASSERT_TRUE(grant) << to_string(grant.error());
      if (grant->pool.empty()) continue;
      const auto* pool = plan::find_pool(plan, grant->pool);
      ASSERT_NE(pool, nullptr);
      const auto limit = std::ranges::find(pool->limits, device.uuid, &plan::PlannedPool::Limit::uuid);
      ASSERT_NE(limit, pool->limits.end());
      EXPECT_LE(grant->devices[0].limits.memory, limit->client.memory);
      EXPECT_LE(grant->devices[0].limits.threads, limit->client.threads);
      if (config.sharing.sm_rounding == config::SmRounding::kOff) continue;
      const auto* gpu = gpu::find_gpu(inventory, device.gpu_uuid);
      EXPECT_TRUE(plan::is_trusted(grant->devices[0].limits.sms,
                                   plan::trusted_sm_counts(gpu->compute_capability, gpu->sm_count)))
          << held << " of " << device.slots << " slots: " << grant->devices[0].limits.sms << " SMs";
    }
  });
}

}  // namespace plan_test
}  // namespace tranche::property
