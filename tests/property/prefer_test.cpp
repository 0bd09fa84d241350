// What must hold for every preferred allocation.
#include "grants/allocate/prefer_fixture.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "plan/plan.h"
#include "property/generate.h"

namespace tranche::property {
namespace prefer_test {

const std::uint32_t kRounds = rounds(600);
using config::AllocationPolicy;

struct Case {
  plan::PlannedResource resource;
  gpu::Inventory inventory;
  std::vector<std::string> available;
  std::vector<std::string> must_include;
  std::uint32_t size = 0;
};

// A resource, some of its slots still free, some of those required, and a size that can be met.
std::optional<Case> any_case(Random& random) {
  Case c;
  c.inventory = any_inventory(random);
  const auto plan = plan::make_plan(any_config(random), c.inventory);
  if (!plan || plan->resources.empty()) return std::nullopt;
  c.resource = random.one_of(plan->resources);
  const std::uint32_t free_percent = random.number(20, 100);
  for (const auto& device : c.resource.devices) {
    for (std::uint32_t n = 0; n < device.slots; ++n) {
      if (random.chance(free_percent))
        c.available.push_back(plan::render({device.uuid, device.replicated ? std::optional(n) : std::nullopt}));
    }
  }
  if (c.available.empty()) return std::nullopt;  // nothing is free, or it is the old name of a renamed resource
  c.size = random.number(1, std::min<std::uint32_t>(12, static_cast<std::uint32_t>(c.available.size())));
  random.shuffle(c.available);
  const std::uint32_t required = random.chance(50) ? random.number(0, c.size) : 0;
  c.must_include.assign(c.available.begin(), c.available.begin() + required);
  random.shuffle(c.available);
  return c;
}

template <class Visit>
void for_each_case(const Visit& visit) {
  std::uint32_t made = 0;
  for (std::uint32_t seed = 1; seed <= kRounds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const auto c = any_case(random);
    if (!c) continue;
    ++made;
    visit(random, *c);
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(made, kRounds / 3);
}

std::vector<std::string> sorted(std::vector<std::string> ids) {
  std::ranges::sort(ids);
  return ids;
}

// Promise: kubelet/preferred: The answer is available, contains what is required and has the size asked for.
TEST(PreferProperty, AnswerIsASubsetWithAllThatIsRequiredAndTheSizeAsked) {
  for_each_case([](auto&, const Case& c) {
    for (const auto policy : {AllocationPolicy::kDistributed, AllocationPolicy::kPacked}) {
      const auto answer = grants::prefer(c.resource, c.inventory, c.available, c.must_include, c.size, policy);
      ASSERT_TRUE(answer) << to_string(answer.error());
      EXPECT_EQ(answer->size(), c.size);
      EXPECT_EQ(std::set<std::string>(answer->begin(), answer->end()).size(), c.size) << "an id twice";
      for (const auto& id : *answer) EXPECT_THAT(c.available, testing::Contains(id));
      for (const auto& id : c.must_include) EXPECT_THAT(*answer, testing::Contains(id));
    }
  });
}

// Promise: kubelet/preferred: The answer does not depend on the order of the question.
TEST(PreferProperty, AnswerDoesNotDependOnTheOrderOfTheQuestion) {
  for_each_case([](Random& random, Case c) {
    const auto first =
        grants::prefer(c.resource, c.inventory, c.available, c.must_include, c.size, AllocationPolicy::kDistributed);
    random.shuffle(c.available);
    random.shuffle(c.must_include);
    const auto second =
        grants::prefer(c.resource, c.inventory, c.available, c.must_include, c.size, AllocationPolicy::kDistributed);
    ASSERT_TRUE(first && second);
    EXPECT_EQ(sorted(*first), sorted(*second));
  });
}

// Spread and packed differ only in the comparator: where there is nothing to compare, they answer alike.
// Promise: kubelet/preferred: Both policies agree where devices are equally used.
TEST(PreferProperty, PoliciesAgreeWhereDevicesAreEquallyUsed) {
  for_each_case([](auto&, Case c) {
    c.must_include.clear();
    c.resource.devices.resize(1);
    std::erase_if(c.available, [&](const auto& id) { return plan::device_of(id) != c.resource.devices[0].uuid; });
    if (c.available.size() < c.size) return;
    EXPECT_EQ(grants::prefer(c.resource, c.inventory, c.available, {}, c.size, AllocationPolicy::kDistributed),
              grants::prefer(c.resource, c.inventory, c.available, {}, c.size, AllocationPolicy::kPacked));
  });
}

TEST(PreferProperty, SlotsUnderMpsLandOnOneGpuWheneverOneHasRoom) {
  for_each_case([](auto&, Case c) {
    if (c.resource.sharing != config::SharingStrategy::kMps) return;
    std::map<std::string, std::uint32_t> free;
    for (const auto& id : c.available) ++free[std::string(plan::device_of(id))];
    const bool fits = std::ranges::any_of(free, [&](const auto& entry) { return entry.second >= c.size; });
    const auto answer =
        grants::prefer(c.resource, c.inventory, c.available, {}, c.size, AllocationPolicy::kDistributed);
    ASSERT_TRUE(answer);
    std::set<std::string> devices;
    for (const auto& id : *answer) devices.insert(std::string(plan::device_of(id)));
    EXPECT_TRUE(!fits || devices.size() == 1u) << devices.size() << " devices";
  });
}

}  // namespace prefer_test
}  // namespace tranche::property
