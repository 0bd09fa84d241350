#include "allocate/align.h"

#include <algorithm>
#include <bit>
#include <map>

namespace tranche::allocate {
namespace {

using Mask = std::uint32_t;
constexpr std::size_t kMostExact = 16;
constexpr int kUnknown = -1;

class Scores {
 public:
  Scores(const inventory::Inventory& inventory, std::span<const std::uint32_t> gpus) : count_(gpus.size()) {
    std::map<std::pair<std::uint32_t, std::uint32_t>, int> known;
    for (const auto& link : inventory.links) known[{link.a, link.b}] = pair_score(link);
    table_.resize(count_ * count_);
    for (std::size_t i = 0; i < count_; ++i) {
      for (std::size_t j = 0; j < count_; ++j) {
        const auto it = known.find(std::minmax(gpus[i], gpus[j]));
        table_[i * count_ + j] = it == known.end() ? 0 : it->second;
      }
    }
  }
  int pair(std::size_t i, std::size_t j) const { return table_[i * count_ + j]; }

 private:
  std::size_t count_;
  std::vector<int> table_;
};

// Best totals over subsets of at most 16 GPUs, computed on demand.
class Partitions {
 public:
  Partitions(const Scores& scores, std::size_t count, std::uint32_t size)
      : size_(static_cast<int>(size)), inside_(std::size_t{1} << count), best_(std::size_t{1} << count, kUnknown) {
    for (Mask mask = 1; mask < inside_.size(); ++mask) {
      const auto low = static_cast<std::size_t>(std::countr_zero(mask));
      const Mask rest = mask & (mask - 1);
      int score = inside_[rest];
      for (Mask m = rest; m != 0; m &= m - 1) score += scores.pair(low, static_cast<std::size_t>(std::countr_zero(m)));
      inside_[mask] = score;
    }
  }

  int inside(Mask set) const { return inside_[set]; }

  // Highest sum over all ways to split `mask` into sets of size_, the remainder forming one smaller set.
  int best(Mask mask) {
    const int count = std::popcount(mask);
    if (count <= size_) return inside_[mask];
    int& answer = best_[mask];
    if (answer != kUnknown) return answer;
    int found = 0;
    const Mask low = mask & (~mask + 1);
    const auto try_sets_of = [&](int wanted) {
      for_each_subset(mask ^ low, wanted - 1,
                      [&](Mask others) { found = std::max(found, inside_[others | low] + best(mask ^ others ^ low)); });
    };
    try_sets_of(size_);
    if (const int remainder = count % size_; remainder != 0) try_sets_of(remainder);
    return best_[mask] = found;
  }

  // Every subset of `mask` with `wanted` members, lowest first.
  template <class Visit>
  static void for_each_subset(Mask mask, int wanted, const Visit& visit, Mask chosen = 0) {
    if (wanted == 0) {
      visit(chosen);
      return;
    }
    while (std::popcount(mask) >= wanted) {
      const Mask low = mask & (~mask + 1);
      mask ^= low;
      for_each_subset(mask, wanted - 1, visit, chosen | low);
    }
  }

 private:
  int size_;
  std::vector<int> inside_;
  std::vector<int> best_;
};

Mask best_set(const Scores& scores, std::size_t count, Mask required, std::uint32_t size) {
  Partitions partitions(scores, count, size);
  const Mask all = static_cast<Mask>((std::size_t{1} << count) - 1);
  Mask chosen = 0;
  std::pair<int, int> chosen_score{kUnknown, kUnknown};
  Partitions::for_each_subset(all ^ required, static_cast<int>(size) - std::popcount(required), [&](Mask others) {
    const Mask set = others | required;
    const std::pair score{partitions.inside(set) + partitions.best(all ^ set), partitions.inside(set)};
    if (score > chosen_score) {
      chosen = set;
      chosen_score = score;
    }
  });
  return chosen;
}

std::vector<std::size_t> grow(const Scores& scores, std::size_t count, std::vector<std::size_t> set, std::size_t size) {
  if (set.empty()) set.push_back(0);
  while (set.size() < size) {
    std::size_t best = count;
    int best_score = kUnknown;
    for (std::size_t i = 0; i < count; ++i) {
      if (std::ranges::find(set, i) != set.end()) continue;
      int score = 0;
      for (const auto member : set) score += scores.pair(i, member);
      if (score > best_score) {
        best = i;
        best_score = score;
      }
    }
    set.push_back(best);
  }
  return set;
}

}  // namespace

int pair_score(const inventory::GpuLink& link) {
  // NVML's levels 50 (across the system) … 0 (same board) are worth 10 … 60.
  return 60 - std::clamp(link.pcie_level, 0, 50) + 100 * static_cast<int>(std::min(link.nvlinks, 18u));
}

std::vector<std::uint32_t> align(const inventory::Inventory& inventory, std::span<const std::uint32_t> available,
                                 std::span<const std::uint32_t> required, std::uint32_t size) {
  std::vector<std::uint32_t> gpus(available.begin(), available.end());
  std::ranges::sort(gpus);
  const Scores scores(inventory, gpus);
  std::vector<std::size_t> wanted;
  for (const auto gpu : required)
    wanted.push_back(static_cast<std::size_t>(std::ranges::lower_bound(gpus, gpu) - gpus.begin()));

  std::vector<std::uint32_t> answer;
  if (gpus.size() > kMostExact) {
    for (const auto i : grow(scores, gpus.size(), wanted, size)) answer.push_back(gpus[i]);
  } else {
    Mask mask = 0;
    for (const auto i : wanted) mask |= Mask{1} << i;
    for (Mask m = best_set(scores, gpus.size(), mask, size); m != 0; m &= m - 1)
      answer.push_back(gpus[static_cast<std::size_t>(std::countr_zero(m))]);
  }
  std::ranges::sort(answer);
  return answer;
}

int set_score(const inventory::Inventory& inventory, std::span<const std::uint32_t> set) {
  int score = 0;
  for (const auto& link : inventory.links) {
    if (std::ranges::find(set, link.a) != set.end() && std::ranges::find(set, link.b) != set.end())
      score += pair_score(link);
  }
  return score;
}

}  // namespace tranche::allocate
