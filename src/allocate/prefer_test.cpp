#include "allocate/prefer.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>

#include "allocate/align.h"
#include "plan/slot_id.h"

namespace tranche::allocate {
namespace {

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

const inventory::Inventory kNone;

TEST(Prefer, DistributedTakesTheLeastUsedGpu) {
  const auto resource = shared(2, 3, config::SharingStrategy::kTimeSlicing);
  const auto available = joined(slots_of(0, {1, 2}), slots_of(1, {0, 1, 2}));
  EXPECT_THAT(*prefer(resource, kNone, available, {}, 1, AllocationPolicy::kDistributed), ElementsAre("GPU-1::0"));
  EXPECT_THAT(*prefer(resource, kNone, available, {}, 1, AllocationPolicy::kPacked), ElementsAre("GPU-0::1"));
}

TEST(Prefer, DistributedSpreadsATimeSlicedRequest) {
  const auto resource = shared(2, 3, config::SharingStrategy::kTimeSlicing);
  const auto available = joined(slots_of(0, {0, 1, 2}), slots_of(1, {0, 1, 2}));
  EXPECT_THAT(*prefer(resource, kNone, available, {}, 2, AllocationPolicy::kDistributed),
              UnorderedElementsAre("GPU-0::0", "GPU-1::0"));
}

TEST(Prefer, MpsSlotsOfOneContainerLandOnOneGpuThatFitsBest) {
  const auto resource = shared(3, 10, config::SharingStrategy::kMps);
  const auto available = joined(slots_of(0, {0, 1, 2, 3, 4, 5, 6}), slots_of(1, {0, 1}), slots_of(2, {5, 6, 7, 8}));
  EXPECT_THAT(*prefer(resource, kNone, available, {}, 4, AllocationPolicy::kDistributed),
              ElementsAre("GPU-2::5", "GPU-2::6", "GPU-2::7", "GPU-2::8"));
}

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

TEST(Prefer, RefusesWhatCannotBe) {
  const auto resource = shared(1, 2, config::SharingStrategy::kMps);
  EXPECT_FALSE(prefer(resource, kNone, slots_of(0, {0}), {}, 2, AllocationPolicy::kPacked));
  EXPECT_FALSE(prefer(resource, kNone, slots_of(0, {0}), slots_of(7, {0}), 1, AllocationPolicy::kPacked));
  EXPECT_FALSE(prefer(resource, kNone, slots_of(0, {0, 1}), slots_of(0, {0, 1}), 1, AllocationPolicy::kPacked));
}

TEST(Prefer, IgnoresOfferedIdsItDoesNotKnow) {
  const auto resource = shared(1, 2, config::SharingStrategy::kMps);
  const std::vector<std::string> offered{"GPU-0::9", "GPU-9::0", "GPU-0", "", "GPU-0::1"};
  EXPECT_THAT(*prefer(resource, kNone, offered, {}, 1, AllocationPolicy::kPacked), ElementsAre("GPU-0::1"));
}

inventory::Inventory with_links(int gpus, const std::function<inventory::GpuLink(std::uint32_t, std::uint32_t)>& link) {
  inventory::Inventory inventory;
  for (int i = 0; i < gpus; ++i) {
    inventory::Gpu gpu;
    gpu.uuid = "GPU-" + std::to_string(i);
    inventory.gpus.push_back(gpu);
  }
  for (std::uint32_t a = 0; a < static_cast<std::uint32_t>(gpus); ++a)
    for (std::uint32_t b = a + 1; b < static_cast<std::uint32_t>(gpus); ++b) inventory.links.push_back(link(a, b));
  return inventory;
}

TEST(Align, PairScoresAreNvidias) {
  EXPECT_EQ(pair_score({0, 1, 50, 0}), 10);
  EXPECT_EQ(pair_score({0, 1, 40, 0}), 20);
  EXPECT_EQ(pair_score({0, 1, 30, 0}), 30);
  EXPECT_EQ(pair_score({0, 1, 20, 0}), 40);
  EXPECT_EQ(pair_score({0, 1, 10, 2}), 250);
  EXPECT_EQ(pair_score({0, 1, 0, 18}), 1860);
}

TEST(Align, TakesThePairThatIsLinked) {
  // 0–3 and 1–2 are joined by NVLink, everything else only through the system.
  const auto inventory = with_links(4, [](auto a, auto b) {
    return inventory::GpuLink{a, b, 50, (a == 0 && b == 3) || (a == 1 && b == 2) ? 2u : 0u};
  });
  const std::vector<std::uint32_t> all{0, 1, 2, 3}, one{1};
  EXPECT_THAT(align(inventory, all, {}, 2), ElementsAre(0, 3));
  EXPECT_THAT(align(inventory, all, one, 2), ElementsAre(1, 2));
}

TEST(Align, DoesNotBreakAPairWhenSomethingElseWillDo) {
  const auto inventory =
      with_links(3, [](auto a, auto b) { return inventory::GpuLink{a, b, 50, a == 0 && b == 1 ? 4u : 0u}; });
  EXPECT_THAT(align(inventory, std::vector<std::uint32_t>{0, 1, 2}, {}, 1), ElementsAre(0));
  EXPECT_THAT(align(inventory, std::vector<std::uint32_t>{0, 1, 2}, std::vector<std::uint32_t>{2}, 1), ElementsAre(2));
}

// The same rule by listing every partition, for as many GPUs as that is bearable.
struct ByListing {
  const inventory::Inventory& inventory;
  std::uint32_t size;
  std::pair<int, int> best{-1, -1};  // total, chosen set
  std::vector<std::uint32_t> required;

  void go(std::vector<std::uint32_t> left, int total, int chosen, bool remainder_used) {
    if (left.empty()) {
      if (chosen >= 0) best = std::max(best, {total, chosen});
      return;
    }
    const auto first = left.front();
    left.erase(left.begin());
    const auto try_set = [&](std::uint32_t wanted, bool is_remainder) {
      std::vector<char> pick(left.size(), 0);
      std::fill(pick.begin(), pick.begin() + static_cast<long>(wanted - 1), 1);
      do {
        std::vector<std::uint32_t> set{first}, rest;
        for (std::size_t i = 0; i < left.size(); ++i) (pick[i] ? set : rest).push_back(left[i]);
        const int score = set_score(inventory, set);
        const bool holds = !is_remainder && std::ranges::all_of(required, [&](auto r) {
          return std::ranges::find(set, r) != set.end();
        });
        go(rest, total + score, holds ? std::max(chosen, score) : chosen, remainder_used || is_remainder);
      } while (std::prev_permutation(pick.begin(), pick.end()));
    };
    if (left.size() + 1 >= size) try_set(size, false);
    const auto remainder = static_cast<std::uint32_t>((left.size() + 1) % size);
    if (!remainder_used && remainder != 0 && left.size() + 1 >= remainder) try_set(remainder, true);
  }
};

TEST(Align, FindsWhatListingEveryPartitionFinds) {
  std::uint32_t seed = 7;
  const auto random = [&] { return (seed = seed * 1664525u + 1013904223u) >> 16; };
  for (int round = 0; round < 40; ++round) {
    const int gpus = 3 + static_cast<int>(random() % 5);
    const auto inventory = with_links(gpus, [&](auto a, auto b) {
      return inventory::GpuLink{a, b, static_cast<int>(random() % 6) * 10, random() % 3 == 0 ? random() % 5 : 0};
    });
    std::vector<std::uint32_t> all;
    for (int i = 0; i < gpus; ++i) all.push_back(static_cast<std::uint32_t>(i));
    const std::uint32_t size = 1 + random() % static_cast<std::uint32_t>(gpus);
    std::vector<std::uint32_t> required;
    if (size > 1 && random() % 2 == 0) required.push_back(random() % static_cast<std::uint32_t>(gpus));
    ByListing listing{inventory, size, {-1, -1}, required};
    listing.go(all, 0, -1, false);
    EXPECT_EQ(set_score(inventory, align(inventory, all, required, size)), listing.best.second)
        << "round " << round << ": " << size << " of " << gpus;
  }
}

TEST(Prefer, WholeGpusAreChosenByTopology) {
  const auto inventory =
      with_links(4, [](auto a, auto b) { return inventory::GpuLink{a, b, a / 2 == b / 2 ? 10 : 50, 0}; });
  const auto resource = shared(4, 1, config::SharingStrategy::kNone);
  const std::vector<std::string> available{"GPU-3", "GPU-1", "GPU-2"};
  EXPECT_THAT(*prefer(resource, inventory, available, {}, 2, AllocationPolicy::kDistributed),
              ElementsAre("GPU-2", "GPU-3"));
}

TEST(Prefer, AGpuThatTheInventoryLostStillCounts) {
  const auto inventory = with_links(2, [](auto a, auto b) { return inventory::GpuLink{a, b, 50, 0}; });
  const auto resource = shared(3, 1, config::SharingStrategy::kNone);
  const std::vector<std::string> available{"GPU-0", "GPU-1", "GPU-2"};
  EXPECT_THAT(*prefer(resource, inventory, available, {}, 3, AllocationPolicy::kDistributed),
              UnorderedElementsAre("GPU-0", "GPU-1", "GPU-2"));
}

}  // namespace
}  // namespace tranche::allocate
