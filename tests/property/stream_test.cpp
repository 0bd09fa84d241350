// What must hold while pods come and go: each is answered as kubelet would have it, a preference and then a grant.
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>

#include "grants/allocate/grant.h"
#include "grants/allocate/prefer_fixture.h"
#include "plan/plan.h"
#include "plan/shares.h"
#include "property/generate.h"

namespace tranche::property {
namespace stream_test {

const std::uint32_t kRounds = rounds(200);
using config::AllocationPolicy;

// A node whose kubelet takes every preference, with the grants that live on it.
class Node {
 public:
  Node(Random& random, const config::Config& config, const gpu::Inventory& inventory, const plan::Plan& plan)
      : random_(random), inventory_(inventory), plan_(plan) {
    settings_.flags = config.flags;
    for (const auto& resource : plan_.resources)
      for (const auto& device : resource.devices)
        for (std::uint32_t n = 0; n < device.slots; ++n)
          free_[resource.name].insert(plan::render({device.uuid, device.replicated ? std::optional(n) : std::nullopt}));
  }

  void a_pod_comes() {
    const auto& resource = random_.one_of(plan_.resources);
    auto& free = free_[resource.name];
    if (free.empty()) return;
    const std::uint32_t most = std::min<std::uint32_t>(static_cast<std::uint32_t>(free.size()), 40);
    const std::uint32_t size = resource.one_slot_per_request ? 1 : random_.number(1, most);
    const std::vector<std::string> available(free.begin(), free.end());
    const auto ids = grants::prefer(resource, inventory_, available, {}, size, AllocationPolicy::kDistributed);
    ASSERT_TRUE(ids) << to_string(ids.error());
    for (const auto& id : *ids) ASSERT_TRUE(free.contains(id)) << id << " was not available";
    const auto around = grants::around(plan_, resource);
    const auto grant = grants::allocate(resource, {}, *ids, settings_, around);
    EXPECT_EQ(grant, grants::allocate(resource, {}, *ids, settings_, around)) << "asked again";
    if (!grant) return;  // refused with a sentence: the pod fails and its slots are free again
    expect_the_devices_of(*ids, *grant);
    for (const auto& id : *ids) free.erase(id);
    living_.push_back({resource.name, *grant});
  }

  void a_pod_goes() {
    if (living_.empty()) return;
    const auto at = living_.begin() + random_.number(0, static_cast<std::uint32_t>(living_.size()) - 1);
    free_[at->resource].insert(at->grant.slots.begin(), at->grant.slots.end());
    living_.erase(at);
  }

  // No device is promised beyond what its slots come to, and no slot is held twice.
  void expect_no_over_commit() const {
    std::map<std::string, std::uint32_t> slots;
    std::map<std::string, std::uint64_t> memory;
    std::set<std::string> held;
    for (const auto& [resource, grant] : living_) {
      for (const auto& slot : grant.slots) EXPECT_TRUE(held.insert(resource + " " + slot).second) << slot;
      for (const auto& on : grant.devices) {
        slots[on.uuid] += on.slots;
        memory[on.uuid] += on.limits.memory.value;
      }
    }
    for (const auto& resource : plan_.resources) {
      for (const auto& device : resource.devices) {
        EXPECT_LE(slots[device.uuid], device.slots);
        if (resource.sharing != config::SharingStrategy::kMps || device.pool.empty()) continue;
        if (const auto most = most_memory(device)) {
          EXPECT_LE(memory[device.uuid], *most) << device.uuid;
        }
      }
    }
  }

 private:
  struct Living {
    std::string resource;
    grants::Grant grant;
  };

  // nullopt: a policy under which grants are no parts of a whole.
  static std::optional<std::uint64_t> most_memory(const plan::PlannedDevice& device) {
    using Kind = config::MemoryPolicy::Kind;
    const std::uint64_t whole = plan::divisible(device.memory, device.policy.reserve).value;
    if (device.policy.memory.kind == Kind::kEqual) return whole;
    // At least a MiB a slot, whatever the factor.
    if (device.policy.memory.kind == Kind::kFactor)
      return std::max(whole * device.policy.memory.factor_hundredths / 100, mib(device.slots).value);
    return std::nullopt;
  }

  static void expect_the_devices_of(const std::vector<std::string>& ids, const grants::Grant& grant) {
    std::map<std::string, std::uint32_t> asked;
    for (const auto& id : ids) ++asked[std::string(plan::device_of(id))];
    std::map<std::string, std::uint32_t> given;
    for (const auto& on : grant.devices) given[on.uuid] = on.slots;
    EXPECT_EQ(given, asked) << "a GPU that is not that of the slots";
  }

  Random& random_;
  const gpu::Inventory& inventory_;
  const plan::Plan& plan_;
  grants::Settings settings_;
  std::map<std::string, std::set<std::string>> free_;
  std::vector<Living> living_;
};

TEST(StreamProperty, PodsThatComeAndGoGetFreeSlotsOfTheirOwnGpusAndNeverMoreThanThePolicyAllows) {
  std::uint32_t made = 0;
  for (std::uint32_t seed = 1; seed <= kRounds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const auto config = any_config(random);
    const auto inventory = any_inventory(random);
    const auto plan = plan::make_plan(config, inventory);
    if (!plan || plan->resources.empty()) continue;
    ++made;
    Node node(random, config, inventory, *plan);
    for (std::uint32_t step = random.number(5, 25); step > 0; --step) {
      if (random.chance(70)) {
        node.a_pod_comes();
      } else {
        node.a_pod_goes();
      }
      if (testing::Test::HasFailure()) return;
    }
    node.expect_no_over_commit();
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(made, kRounds / 3);
}

}  // namespace stream_test
}  // namespace tranche::property
