#include "grants/allocate/prefer.h"
#include "grants/allocate/topology_fixture.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>

namespace tranche::grants {
namespace align_test {

using ::testing::ElementsAre;
using Set = std::vector<std::uint32_t>;

Set all_of(std::uint32_t gpus) {
  Set set(gpus);
  std::iota(set.begin(), set.end(), 0U);
  return set;
}

// The sum of pair scores inside one set.
int set_score(const gpu::Inventory& inventory, std::span<const std::uint32_t> set) {
  int score = 0;
  for (const auto& link : inventory.links) {
    if (std::ranges::find(set, link.a) != set.end() && std::ranges::find(set, link.b) != set.end())
      score += pair_score(link);
  }
  return score;
}

TEST(Align, PairScoresAreNvidias) {
  EXPECT_EQ(pair_score({0, 1, 50, 0}), 10);
  EXPECT_EQ(pair_score({0, 1, 40, 0}), 20);
  EXPECT_EQ(pair_score({0, 1, 30, 0}), 30);
  EXPECT_EQ(pair_score({0, 1, 20, 0}), 40);
  EXPECT_EQ(pair_score({0, 1, 10, 2}), 250);
  EXPECT_EQ(pair_score({0, 1, 0, 18}), 1860);
}

// The same rule by listing every partition, for as many GPUs as that is bearable.
struct ByListing {
  const gpu::Inventory& inventory;
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

template <class Random>
gpu::Inventory random_links(std::uint32_t gpus, Random& random) {
  return with_links(static_cast<int>(gpus), [&](auto a, auto b) {
    return gpu::GpuLink{a, b, static_cast<int>(random() % 6) * 10, random() % 3 == 0 ? random() % 5 : 0};
  });
}

// Promise: kubelet/preferred: The aligned choice equals a search of all partitions.
TEST(Align, FindsWhatListingEveryPartitionFinds) {
  std::uint32_t seed = 7;
  const auto random = [&] { return (seed = seed * 1664525u + 1013904223u) >> 16; };
  for (int round = 0; round < 150; ++round) {
    const std::uint32_t gpus = 3 + random() % 7;
    const auto inventory = random_links(gpus, random);
    const std::uint32_t size = 1 + random() % gpus;
    Set required;
    while (required.size() < size && random() % 2 == 0) required.push_back(static_cast<std::uint32_t>(required.size()));
    ByListing listing{inventory, size, {-1, -1}, required};
    listing.go(all_of(gpus), 0, -1, false);
    EXPECT_EQ(set_score(inventory, align(inventory, all_of(gpus), required, size)), listing.best.second)
        << "round " << round << ": " << size << " of " << gpus << ", " << required.size() << " required";
  }
}

// The same rule for more GPUs than can be listed: every subset that can be left over, worked out once, without any of
// the shortcuts of align.cpp.
class BySubsets {
 public:
  BySubsets(const gpu::Inventory& inventory, std::uint32_t gpus, int size)
      : size_(size), gpus_(gpus), pairs_(std::size_t{gpus} * gpus) {
    for (const auto& link : inventory.links)
      pairs_[link.a * gpus + link.b] = pairs_[link.b * gpus + link.a] = pair_score(link);
  }
  // Score of the set to hand out: of the best total, the best set with all of `required`.
  int chosen(std::uint32_t required) {
    const std::uint32_t all = (1U << gpus_) - 1;
    std::pair best{-1, -1};
    for (std::uint32_t set = 1; set <= all; ++set) {
      if (std::popcount(set) != size_ || (set & required) != required) continue;
      best = std::max(best, std::pair{inside(set) + total(all ^ set), inside(set)});
    }
    return best.second;
  }

 private:
  int inside(std::uint32_t set) const {
    int sum = 0;
    for (std::uint32_t a = 0; a < gpus_; ++a)
      for (std::uint32_t b = a + 1; b < gpus_; ++b)
        if ((set >> a & 1U) != 0 && (set >> b & 1U) != 0) sum += pairs_[a * gpus_ + b];
    return sum;
  }
  int total(std::uint32_t left) {
    if (std::popcount(left) <= size_) return inside(left);
    const auto known = totals_.find(left);
    if (known != totals_.end()) return known->second;
    const std::uint32_t low = left & (~left + 1);
    const int remainder = std::popcount(left) % size_;
    int best = 0;
    for (std::uint32_t others = left ^ low; others != 0; others = (others - 1) & (left ^ low)) {
      const int members = std::popcount(others) + 1;
      if (members == size_ || members == remainder)
        best = std::max(best, inside(others | low) + total(left ^ others ^ low));
    }
    if (size_ == 1 || remainder == 1) best = std::max(best, total(left ^ low));
    return totals_[left] = best;
  }

  int size_;
  std::uint32_t gpus_;
  std::vector<int> pairs_;
  std::map<std::uint32_t, int> totals_;
};

TEST(Align, IsNoWorseThanTheFullSearchAlsoForTwelveGpus) {
  std::uint32_t seed = 12;
  const auto random = [&] { return (seed = seed * 1664525u + 1013904223u) >> 16; };
  for (std::uint32_t size = 1; size <= 12; ++size) {
    const auto inventory = random_links(12, random);
    BySubsets search(inventory, 12, static_cast<int>(size));
    EXPECT_EQ(set_score(inventory, align(inventory, all_of(12), {}, size)), search.chosen(0)) << size;
    const Set required{3};
    EXPECT_EQ(set_score(inventory, align(inventory, all_of(12), required, size)), search.chosen(1U << 3)) << size;
  }
}

// Promise: kubelet/preferred: The aligned choice of 16 GPUs is never worse than the full search.
TEST(Align, IsNoWorseThanTheFullSearchAlsoForSixteenGpus) {
  std::uint32_t seed = 16;
  const auto random = [&] { return (seed = seed * 1664525u + 1013904223u) >> 16; };
  for (const std::uint32_t size : {6U, 8U}) {  // the one with the most ways, and one without a remainder
    const auto inventory = random_links(16, random);
    BySubsets search(inventory, 16, static_cast<int>(size));
    EXPECT_EQ(set_score(inventory, align(inventory, all_of(16), {}, size)), search.chosen(0)) << size;
  }
}

// Machines that exist. PCIe levels: 10 one switch, 30 one host bridge, 40 one socket, 50 the other socket.
int level_in_sockets_of_four(std::uint32_t a, std::uint32_t b) {
  return a / 2 == b / 2 ? 10 : a / 4 == b / 4 ? 40 : 50;
}

// 8 V100 in two fully joined fours whose corners are joined: six links a GPU, some pairs by two.
gpu::Inventory cube_mesh() {
  static constexpr int kLinks[8][8] = {{0, 1, 1, 2, 2, 0, 0, 0}, {1, 0, 2, 1, 0, 2, 0, 0}, {1, 2, 0, 2, 0, 0, 1, 0},
                                       {2, 1, 2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 1, 1, 2}, {0, 2, 0, 0, 1, 0, 2, 1},
                                       {0, 0, 1, 0, 1, 2, 0, 2}, {0, 0, 0, 1, 2, 1, 2, 0}};
  return with_links(8, [](auto a, auto b) {
    return gpu::GpuLink{a, b, level_in_sockets_of_four(a, b), static_cast<std::uint32_t>(kLinks[a][b])};
  });
}

// Links that end at a switch count for nothing, so 8 GPUs behind NVSwitch are distinguished by PCIe alone.
gpu::Inventory nvswitch() {
  return with_links(8, [](auto a, auto b) { return gpu::GpuLink{a, b, level_in_sockets_of_four(a, b), 0}; });
}

// Bridges join 0–1, 2–3, 4–5 and 6–7 by four links each.
gpu::Inventory four_bridged_pairs() {
  return with_links(
      8, [](auto a, auto b) { return gpu::GpuLink{a, b, a / 4 == b / 4 ? 40 : 50, a / 2 == b / 2 ? 4U : 0U}; });
}

gpu::Inventory two_sockets() {
  return with_links(8, [](auto a, auto b) { return gpu::GpuLink{a, b, a / 4 == b / 4 ? 30 : 50, 0}; });
}

struct Machine {
  const char* name;
  gpu::Inventory (*make)();
  Set available;
  Set required;
  std::uint32_t size;
  Set chosen;
};

// Promise: kubelet/preferred: Choices on known machines follow NVIDIA's rule.
TEST(Align, OnKnownMachinesChoosesWhatNvidiasRuleSays) {
  const Set all = all_of(8);
  const std::vector<Machine> machines = {
      {"cube mesh", cube_mesh, all, {}, 1, {0}},
      {"cube mesh", cube_mesh, all, {5}, 1, {5}},
      {"cube mesh: two links and one PCIe switch", cube_mesh, all, {}, 2, {2, 3}},
      {"cube mesh: across the sockets, so that the other pairs stay whole", cube_mesh, all, {0}, 2, {0, 4}},
      {"cube mesh: 3 is gone", cube_mesh, {0, 1, 2, 4, 5, 6, 7}, {}, 2, {6, 7}},
      {"cube mesh: a whole four", cube_mesh, all, {}, 4, {0, 1, 2, 3}},
      {"cube mesh: the other four", cube_mesh, all, {6}, 4, {4, 5, 6, 7}},
      {"cube mesh", cube_mesh, all, {}, 8, all},
      {"NVSwitch", nvswitch, all, {}, 2, {0, 1}},
      {"NVSwitch: 1 and 2 are gone", nvswitch, {0, 3, 4, 5, 6, 7}, {}, 2, {4, 5}},
      {"NVSwitch", nvswitch, all, {6}, 4, {4, 5, 6, 7}},
      {"bridged pairs", four_bridged_pairs, all, {}, 2, {0, 1}},
      {"bridged pairs", four_bridged_pairs, all, {5}, 2, {4, 5}},
      {"bridged pairs: one GPU is taken where a pair is broken already",
       four_bridged_pairs,
       {0, 1, 3, 4, 5},
       {3},
       1,
       {3}},
      {"bridged pairs: three are a pair and a neighbour", four_bridged_pairs, all, {}, 3, {0, 1, 2}},
      {"bridged pairs: two whole pairs of one socket", four_bridged_pairs, {1, 2, 3, 4, 5, 6, 7}, {}, 4, {4, 5, 6, 7}},
      {"two sockets", two_sockets, all, {}, 2, {0, 1}},
      {"two sockets: both of one socket", two_sockets, {0, 4, 5}, {}, 2, {4, 5}},
      {"two sockets", two_sockets, {1, 2, 4, 5, 6, 7}, {}, 4, {4, 5, 6, 7}},
      {"two sockets: both required", two_sockets, all, {3, 4}, 2, {3, 4}},
  };
  for (const auto& machine : machines) {
    const auto inventory = machine.make();
    const auto answer = align(inventory, machine.available, machine.required, machine.size);
    EXPECT_EQ(answer, machine.chosen) << machine.name << ", " << machine.size << " of " << machine.available.size();
    ByListing listing{inventory, machine.size, {-1, -1}, machine.required};
    listing.go(machine.available, 0, -1, false);
    EXPECT_EQ(set_score(inventory, answer), listing.best.second) << machine.name;
  }
}

// Promise: kubelet/preferred: Equal choices go to the lowest positions.
TEST(Align, TiesGoToTheLowestPositions) {
  const auto inventory = with_links(16, [](auto a, auto b) { return gpu::GpuLink{a, b, 10, 0}; });
  for (std::uint32_t size = 1; size <= 16; ++size)
    EXPECT_EQ(align(inventory, all_of(16), {}, size), all_of(size)) << size;
}

// Promise: kubelet/preferred: More than 16 GPUs are grown from the required ones.
TEST(Align, MoreThanSixteenGpusAreGrownFromWhatIsRequired) {
  const auto inventory = with_links(20, [](auto a, auto b) { return gpu::GpuLink{a, b, a / 4 == b / 4 ? 10 : 50, 0}; });
  EXPECT_THAT(align(inventory, all_of(20), Set{17}, 4), ElementsAre(16, 17, 18, 19));
  EXPECT_THAT(align(inventory, all_of(20), {}, 3), ElementsAre(0, 1, 2));
}

TEST(Align, NothingAskedIsNothingChosen) {
  const auto inventory = two_sockets();
  EXPECT_THAT(align(inventory, all_of(8), {}, 0), ElementsAre());
  EXPECT_THAT(align(inventory, {}, {}, 0), ElementsAre());
}

}  // namespace align_test
}  // namespace tranche::grants
