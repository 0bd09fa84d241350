#include "grants/allocate/prefer.h"
#include "grants/allocate/prefer_fixture.h"
#include "grants/allocate/topology_fixture.h"

#include <gmock/gmock.h>

#include <algorithm>

namespace tranche::grants {
namespace prefer_test {

using config::AllocationPolicy;
using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

plan::PlannedResource shared(int gpus, std::uint32_t slots, config::SharingStrategy sharing) {
  plan::PlannedResource resource;
  resource.name = "nvidia.com/gpu";
  resource.sharing = sharing;
  for (int i = 0; i < gpus; ++i) {
    plan::PlannedDevice device;
    device.uuid = device.gpu_uuid = "GPU-" + std::to_string(i);
    device.replicated = slots > 1;
    device.slots = slots;
    resource.devices.push_back(device);
  }
  return resource;
}

std::vector<std::string> slots_of(int gpu, std::initializer_list<std::uint32_t> ordinals) {
  std::vector<std::string> ids;
  for (const auto n : ordinals) ids.push_back(plan::render({"GPU-" + std::to_string(gpu), n}));
  return ids;
}

template <class... Lists>
std::vector<std::string> joined(Lists... lists) {
  std::vector<std::string> out;
  (out.insert(out.end(), lists.begin(), lists.end()), ...);
  return out;
}

const gpu::Inventory kNone;

// NVIDIA's greedy rule as a table: how many slots of each GPU are free (the last ones), what is required, how many are
// asked for, and how many of each GPU the answer holds under either policy. Slots are time-sliced.
struct Rule {
  const char* what;
  std::uint32_t slots;              // of each GPU
  std::vector<std::uint32_t> free;  // by GPU
  std::vector<std::string> required;
  std::uint32_t size;
  std::vector<std::uint32_t> distributed;  // by GPU
  std::vector<std::uint32_t> packed;
};

const std::vector<Rule>& rules() {
  static const std::vector<Rule> kRules = {
      {"nothing is taken: one", 4, {4, 4}, {}, 1, {1, 0}, {1, 0}},
      {"nothing is taken: two", 4, {4, 4}, {}, 2, {1, 1}, {2, 0}},
      {"nothing is taken: one more than there are GPUs", 4, {4, 4, 4}, {}, 4, {2, 1, 1}, {4, 0, 0}},
      {"nothing is taken: more than one GPU has", 4, {4, 4}, {}, 5, {3, 2}, {4, 1}},
      {"everything is asked for", 2, {2, 2}, {}, 4, {2, 2}, {2, 2}},
      {"one GPU is used already", 4, {2, 4}, {}, 1, {0, 1}, {1, 0}},
      {"until both are equally used", 4, {2, 4}, {}, 2, {0, 2}, {2, 0}},
      {"and then by turns", 4, {2, 4}, {}, 4, {1, 3}, {2, 2}},
      {"three GPUs used unlike", 4, {1, 2, 3}, {}, 1, {0, 0, 1}, {1, 0, 0}},
      {"three GPUs used unlike: from the ends inward", 4, {1, 2, 3}, {}, 3, {0, 1, 2}, {1, 2, 0}},
      {"a full GPU takes no part", 4, {0, 3}, {}, 2, {0, 2}, {0, 2}},
      {"what is required counts as taken", 4, {4, 4}, slots_of(0, {3}), 2, {1, 1}, {2, 0}},
      {"taken and required weigh the same", 4, {3, 4}, slots_of(1, {3}), 3, {1, 2}, {2, 1}},
      {"everything asked for is required", 4, {4, 4}, slots_of(1, {2, 3}), 2, {0, 2}, {0, 2}},
  };
  return kRules;
}

std::vector<std::uint32_t> by_gpu(const std::vector<std::string>& ids, std::size_t gpus) {
  std::vector<std::uint32_t> counts(gpus);
  for (const auto& id : ids) ++counts[static_cast<std::size_t>(plan::device_of(id).back() - '0')];
  return counts;
}

// Promise: kubelet/preferred: Slots follow the rule of NVIDIA's plugin under both policies.
TEST(Prefer, FollowsNvidiasRuleOneSlotAtATime) {
  for (const auto& rule : rules()) {
    SCOPED_TRACE(rule.what);
    const auto resource = shared(static_cast<int>(rule.free.size()), rule.slots, config::SharingStrategy::kTimeSlicing);
    std::vector<std::string> available;
    for (std::uint32_t gpu = 0; gpu < rule.free.size(); ++gpu) {
      for (std::uint32_t n = rule.slots - rule.free[gpu]; n < rule.slots; ++n)
        available.push_back(plan::render({"GPU-" + std::to_string(gpu), n}));
    }
    for (const auto policy : {AllocationPolicy::kDistributed, AllocationPolicy::kPacked}) {
      const auto answer = prefer(resource, kNone, available, rule.required, rule.size, policy);
      ASSERT_TRUE(answer) << to_string(answer.error());
      EXPECT_EQ(by_gpu(*answer, rule.free.size()), policy == AllocationPolicy::kPacked ? rule.packed : rule.distributed)
          << config::to_string(policy);
      EXPECT_THAT(*answer, ::testing::IsSupersetOf(rule.required));
    }
  }
}

// Pods of one slot, one after the other, as kubelet asks: what the policies are for.
// Promise: kubelet/preferred: `distributed` keeps GPUs even and `packed` fills one after the other.
TEST(Prefer, PodByPodDistributedKeepsGpusEvenAndPackedFillsOneAfterTheOther) {
  const auto resource = shared(3, 4, config::SharingStrategy::kTimeSlicing);
  for (const auto policy : {AllocationPolicy::kDistributed, AllocationPolicy::kPacked}) {
    auto available = joined(slots_of(0, {0, 1, 2, 3}), slots_of(1, {0, 1, 2, 3}), slots_of(2, {0, 1, 2, 3}));
    std::vector<std::uint32_t> used(3);
    for (std::uint32_t pod = 1; pod <= 12; ++pod) {
      const auto answer = prefer(resource, kNone, available, {}, 1, policy);
      ASSERT_TRUE(answer);
      std::erase(available, answer->front());
      ++used[by_gpu(*answer, 3)[0] == 1 ? 0 : by_gpu(*answer, 3)[1] == 1 ? 1 : 2];
      const auto [least, most] = std::ranges::minmax(used);
      if (policy == AllocationPolicy::kDistributed) {
        EXPECT_LE(most - least, 1U) << "pod " << pod;
      } else {
        EXPECT_LE(std::ranges::count_if(used, [](auto n) { return n % 4 != 0; }), 1) << "pod " << pod;
      }
    }
  }
}

plan::PlannedResource mig(int gpus, int devices_each, std::uint32_t slots) {
  auto resource = shared(gpus * devices_each, slots, config::SharingStrategy::kTimeSlicing);
  for (int i = 0; i < gpus * devices_each; ++i) {
    auto& device = resource.devices[static_cast<std::size_t>(i)];
    device.is_mig = true;
    device.gpu_uuid = "GPU-" + std::to_string(i / devices_each);
    device.uuid = "MIG-" + std::to_string(i);
    device.index = std::to_string(i / devices_each) + ":" + std::to_string(i % devices_each);
  }
  return resource;
}

// MIG-0, MIG-1, MIG-2 are on the first GPU, MIG-3, MIG-4, MIG-5 on the second.
// Promise: kubelet/preferred: MIG devices are spread and packed by their GPU.
TEST(Prefer, MigDevicesAreSpreadAndPackedByTheirGpu) {
  const auto resource = mig(2, 3, 1);
  const std::vector<std::string> all{"MIG-0", "MIG-1", "MIG-2", "MIG-3", "MIG-4", "MIG-5"};
  const std::vector<std::string> one_taken{"MIG-1", "MIG-2", "MIG-3", "MIG-4", "MIG-5"};
  const auto distributed = AllocationPolicy::kDistributed;
  const auto packed = AllocationPolicy::kPacked;
  EXPECT_THAT(*prefer(resource, kNone, all, {}, 2, distributed), UnorderedElementsAre("MIG-0", "MIG-3"));
  EXPECT_THAT(*prefer(resource, kNone, all, {}, 2, packed), UnorderedElementsAre("MIG-0", "MIG-1"));
  EXPECT_THAT(*prefer(resource, kNone, one_taken, {}, 1, distributed), ElementsAre("MIG-3"));
  EXPECT_THAT(*prefer(resource, kNone, one_taken, {}, 1, packed), ElementsAre("MIG-1"));
  const std::vector<std::string> last{"MIG-5"};
  EXPECT_THAT(*prefer(resource, kNone, all, last, 2, distributed), UnorderedElementsAre("MIG-5", "MIG-0"));
  EXPECT_THAT(*prefer(resource, kNone, all, last, 2, packed), UnorderedElementsAre("MIG-5", "MIG-3"));
}

TEST(Prefer, SlotsOfMigDevicesFollowTheDeviceFirstAndThenItsGpu) {
  const auto resource = mig(2, 2, 2);  // MIG-0 and MIG-1, MIG-2 and MIG-3, two slots each
  const std::vector<std::string> all{"MIG-0::0", "MIG-0::1", "MIG-1::0", "MIG-1::1",
                                     "MIG-2::0", "MIG-2::1", "MIG-3::0", "MIG-3::1"};
  std::vector<std::string> one_taken(all.begin() + 1, all.end());
  EXPECT_THAT(*prefer(resource, kNone, all, {}, 2, AllocationPolicy::kDistributed),
              UnorderedElementsAre("MIG-0::0", "MIG-2::0"));
  EXPECT_THAT(*prefer(resource, kNone, all, {}, 3, AllocationPolicy::kPacked),
              UnorderedElementsAre("MIG-0::0", "MIG-0::1", "MIG-1::0"));
  EXPECT_THAT(*prefer(resource, kNone, one_taken, {}, 1, AllocationPolicy::kDistributed), ElementsAre("MIG-2::0"));
  EXPECT_THAT(*prefer(resource, kNone, one_taken, {}, 1, AllocationPolicy::kPacked), ElementsAre("MIG-0::1"));
}

TEST(Prefer, OnWslAndTegraThePolicyIsAlwaysDistributed) {
  const auto resource = shared(2, 3, config::SharingStrategy::kTimeSlicing);
  const auto available = joined(slots_of(0, {1, 2}), slots_of(1, {0, 1, 2}));
  for (const auto platform : {gpu::Platform::kWsl, gpu::Platform::kTegra}) {
    gpu::Inventory inventory;
    inventory.platform = platform;
    EXPECT_THAT(*prefer(resource, inventory, available, {}, 1, AllocationPolicy::kPacked), ElementsAre("GPU-1::0"));
    auto one = shared(1, 1, config::SharingStrategy::kNone);
    one.devices[0].uuid = one.devices[0].gpu_uuid = platform == gpu::Platform::kWsl ? "all" : "tegra";
    const std::vector<std::string> its_id{one.devices[0].uuid};
    EXPECT_EQ(*prefer(one, inventory, its_id, {}, 1, AllocationPolicy::kPacked), its_id);
  }
}

// Promise: kubelet/preferred: Several MPS slots go to the one GPU where they fit best.
TEST(Prefer, MpsSlotsOfOneContainerLandOnOneGpuThatFitsBest) {
  const auto resource = shared(3, 10, config::SharingStrategy::kMps);
  const auto available = joined(slots_of(0, {0, 1, 2, 3, 4, 5, 6}), slots_of(1, {0, 1}), slots_of(2, {5, 6, 7, 8}));
  EXPECT_THAT(*prefer(resource, kNone, available, {}, 4, AllocationPolicy::kDistributed),
              ElementsAre("GPU-2::5", "GPU-2::6", "GPU-2::7", "GPU-2::8"));
}

// Promise: kubelet/preferred: MPS slots that fit on no GPU use as few GPUs as possible.
TEST(Prefer, MpsSlotsThatFitNowhereUseAsFewGpusAsPossible) {
  const auto resource = shared(3, 4, config::SharingStrategy::kMps);
  const auto available = joined(slots_of(0, {0}), slots_of(1, {0, 1, 2}), slots_of(2, {0, 1}));
  EXPECT_THAT(*prefer(resource, kNone, available, {}, 5, AllocationPolicy::kDistributed),
              UnorderedElementsAre("GPU-1::0", "GPU-1::1", "GPU-1::2", "GPU-2::0", "GPU-2::1"));
}

TEST(Prefer, StaysWhereSomethingIsRequired) {
  const auto resource = shared(2, 10, config::SharingStrategy::kMps);
  const auto available = joined(slots_of(0, {0, 1, 2}), slots_of(1, {0, 1, 2, 3, 4}));
  EXPECT_THAT(*prefer(resource, kNone, available, slots_of(1, {2}), 3, AllocationPolicy::kDistributed),
              UnorderedElementsAre("GPU-1::2", "GPU-1::0", "GPU-1::1"));
}

// Promise: kubelet/preferred: An impossible question is an error.
TEST(Prefer, RefusesWhatCannotBe) {
  const auto resource = shared(1, 2, config::SharingStrategy::kMps);
  EXPECT_FALSE(prefer(resource, kNone, slots_of(0, {0}), {}, 2, AllocationPolicy::kPacked));
  EXPECT_FALSE(prefer(resource, kNone, slots_of(0, {0}), slots_of(7, {0}), 1, AllocationPolicy::kPacked));
  EXPECT_FALSE(prefer(resource, kNone, slots_of(0, {0, 1}), slots_of(0, {0, 1}), 1, AllocationPolicy::kPacked));
}

TEST(Prefer, IgnoresOfferedIdsItDoesNotKnow) {
  const auto resource = shared(1, 2, config::SharingStrategy::kMps);
  const std::vector<std::string> offered{"GPU-0::9", "GPU-0::2", "GPU-9::0", "GPU-0", "", "GPU-0::1"};
  EXPECT_THAT(*prefer(resource, kNone, offered, {}, 1, AllocationPolicy::kPacked), ElementsAre("GPU-0::1"));
  EXPECT_FALSE(prefer(resource, kNone, offered, {}, 2, AllocationPolicy::kPacked)) << "its slots are 0 and 1";
}

// Topology is for whole GPUs only: the policies have no say there, and slots are never placed by it.
// Promise: kubelet/preferred: Whole GPUs are chosen by topology and slots by policy.
TEST(Prefer, TopologyIsForWholeGpusAndPoliciesAreForSlots) {
  // 0 and 2 are neighbours, 1 and 3 are.
  const auto inventory = with_links(4, [](auto a, auto b) { return gpu::GpuLink{a, b, a % 2 == b % 2 ? 10 : 50, 0}; });
  const auto whole = shared(4, 1, config::SharingStrategy::kNone);
  const std::vector<std::string> gpus{"GPU-0", "GPU-1", "GPU-2", "GPU-3"};
  for (const auto policy : {AllocationPolicy::kDistributed, AllocationPolicy::kPacked})
    EXPECT_THAT(*prefer(whole, inventory, gpus, {}, 2, policy), ElementsAre("GPU-0", "GPU-2"));

  const auto slots = shared(4, 2, config::SharingStrategy::kTimeSlicing);
  const auto available = joined(slots_of(0, {0, 1}), slots_of(1, {0, 1}), slots_of(2, {0, 1}), slots_of(3, {0, 1}));
  EXPECT_THAT(*prefer(slots, inventory, available, {}, 2, AllocationPolicy::kDistributed),
              UnorderedElementsAre("GPU-0::0", "GPU-1::0"));

  auto divided = mig(4, 1, 1);
  const std::vector<std::string> migs{"MIG-0", "MIG-1", "MIG-2", "MIG-3"};
  EXPECT_THAT(*prefer(divided, inventory, migs, {}, 2, AllocationPolicy::kDistributed),
              UnorderedElementsAre("MIG-0", "MIG-1"));
}

// Promise: kubelet/preferred: A lost GPU counts without a place in the topology.
TEST(Prefer, AGpuThatTheInventoryLostStillCounts) {
  const auto inventory = with_links(2, [](auto a, auto b) { return gpu::GpuLink{a, b, 50, 0}; });
  const auto resource = shared(3, 1, config::SharingStrategy::kNone);
  const std::vector<std::string> available{"GPU-0", "GPU-1", "GPU-2"};
  EXPECT_THAT(*prefer(resource, inventory, available, {}, 3, AllocationPolicy::kDistributed),
              UnorderedElementsAre("GPU-0", "GPU-1", "GPU-2"));
}

TEST(Prefer, ALostGpuThatIsRequiredIsCountedOnce) {
  const auto inventory = with_links(3, [](auto a, auto b) { return gpu::GpuLink{a, b, a + b == 3 ? 10 : 50, 0}; });
  const auto resource = shared(4, 1, config::SharingStrategy::kNone);  // GPU-3 is not in the inventory
  const std::vector<std::string> available{"GPU-0", "GPU-1", "GPU-2", "GPU-3"};
  const std::vector<std::string> lost{"GPU-3"};
  EXPECT_THAT(*prefer(resource, inventory, available, lost, 1, AllocationPolicy::kDistributed), ElementsAre("GPU-3"));
  EXPECT_THAT(*prefer(resource, inventory, available, lost, 3, AllocationPolicy::kDistributed),
              UnorderedElementsAre("GPU-3", "GPU-1", "GPU-2"));
  EXPECT_THAT(*prefer(resource, kNone, available, {}, 2, AllocationPolicy::kDistributed), ::testing::SizeIs(2))
      << "also without any topology";
}

}  // namespace prefer_test
}  // namespace tranche::grants
