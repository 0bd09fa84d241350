#include "grants/allocate/prefer.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <ranges>

namespace tranche::grants {
namespace {

constexpr std::size_t kMostExact = 16;

// A set of GPUs. The first GPU has the highest bit, so of two sets the greater number has the lower positions.
using Mask = std::uint32_t;

// Of each pair of `gpus`, which are positions in the inventory.
class Scores {
 public:
  Scores(const gpu::Inventory& inventory, const std::vector<std::uint32_t>& gpus)
      : count_(gpus.size()), table_(count_ * count_) {
    for (const auto& link : inventory.links) {
      const auto a = static_cast<std::size_t>(std::ranges::find(gpus, link.a) - gpus.begin());
      const auto b = static_cast<std::size_t>(std::ranges::find(gpus, link.b) - gpus.begin());
      if (a < count_ && b < count_) table_[a * count_ + b] = table_[b * count_ + a] = pair_score(link);
    }
  }
  std::size_t count() const { return count_; }
  int pair(std::size_t i, std::size_t j) const { return table_[i * count_ + j]; }

 private:
  std::size_t count_;
  std::vector<int> table_;
};

// The rank of a way to split some GPUs, as one number to compare: in the high bits the sum of all pair scores inside
// sets; below it the name of its best full set, which is the set's own score and then the set. So the greatest Rank has
// the greatest sum, then the best set to hand out, then the lowest positions; and since sums add up and the best name
// is a maximum, the greatest Rank of a whole is made of the greatest Ranks of its parts.
using Rank = std::uint64_t;
constexpr int kSetBits = kMostExact;
constexpr int kScoreBits = 18;  // 120 pairs of 1860 each
constexpr int kNameBits = kSetBits + kScoreBits;
constexpr Rank kNameMask = (Rank{1} << kNameBits) - 1;
constexpr Rank kUnknown = ~Rank{0};
static_assert(120 * 1860 < 1 << kScoreBits && kNameBits + kScoreBits < 64);

Rank sum_of(Rank rank) {
  return rank & ~kNameMask;
}

Rank together(Rank a, Rank b) {
  return sum_of(a) + sum_of(b) + std::max(a & kNameMask, b & kNameMask);
}

// Calls `each` with every set of `set` and `more` members of `others`, of which `spare` stay out.
template <class Each>
void with_members(Mask set, int more, Mask others, int spare, const Each& each) {
  if (more == 0) return each(set);
  for (; spare >= 0; --spare, others &= others - 1)
    with_members(set | (others & -others), more - 1, others & (others - 1), spare, each);
}

// The best split of any subset of at most 16 GPUs into sets of one size, the remainder forming one smaller set. A set
// is always taken with the first member of what is left, so no split is looked at twice, and of the 65536 subsets only
// those that can be left over are ever worked out: at most 0.9 million steps (16 GPUs by 6) instead of all partitions.
class Splits {
 public:
  Splits(const Scores& scores, int size) : size_(size), ranks_(std::size_t{1} << scores.count(), kUnknown) {
    const int remainder = static_cast<int>(scores.count()) % size;
    // inside(set) = inside(without its lowest) + inside(without its highest) - inside(without both) + that pair.
    std::vector<Rank> inside(ranks_.size());
    for (Mask set = 1; set < ranks_.size(); ++set) {
      const Mask low = set & -set, high = std::bit_floor(set);
      if (low != high)
        inside[set] = inside[set ^ low] + inside[set ^ high] - inside[set ^ low ^ high] +
                      static_cast<Rank>(scores.pair(scores.count() - static_cast<std::size_t>(std::bit_width(low)),
                                                    scores.count() - static_cast<std::size_t>(std::bit_width(high))));
      const int members = std::popcount(set);
      if (members == size) ranks_[set] = inside[set] << kNameBits | inside[set] << kSetBits | set;
      if (members == remainder) ranks_[set] = inside[set] << kNameBits;
    }
    ranks_[0] = 0;
  }

  // The set to hand out of the best split of `all` that has a full set with all of `required`.
  Mask set_with(Mask all, Mask required) {
    Rank found = required == 0 ? best(all) : 0;
    if (required != 0)
      with_members(required, size_ - std::popcount(required), all ^ required, std::popcount(all) - size_,
                   [&](Mask set) { found = std::max(found, ranks_[set] + sum_of(best(all ^ set))); });
    return static_cast<Mask>(found & ((Rank{1} << kSetBits) - 1));
  }

 private:
  Rank best(Mask mask) {
    if (ranks_[mask] != kUnknown) return ranks_[mask];
    const Mask first = std::bit_floor(mask);
    const int all = std::popcount(mask);
    Rank found = 0;
    for (const int members : {size_, all % size_})
      if (members > 0)
        with_members(first, members - 1, mask ^ first, all - members, [&](Mask set) {
          const Rank rest = ranks_[mask ^ set];  // looked up here, because this is done a million times
          found = std::max(found, together(ranks_[set], rest == kUnknown ? best(mask ^ set) : rest));
        });
    return ranks_[mask] = found;
  }

  int size_;
  std::vector<Rank> ranks_;  // by subset; kUnknown until it is needed
};

std::vector<std::size_t> grow(const Scores& scores, std::vector<std::size_t> set, std::size_t size) {
  const auto score = [&](std::size_t i) {
    if (std::ranges::find(set, i) != set.end()) return -1;
    return std::accumulate(set.begin(), set.end(), 0, [&](int sum, std::size_t j) { return sum + scores.pair(i, j); });
  };
  while (set.size() < size)
    set.push_back(std::ranges::max(std::views::iota(std::size_t{0}, scores.count()), {}, score));
  return set;
}

}  // namespace

int pair_score(const gpu::GpuLink& link) {
  // NVML's levels 50 (across the system) … 0 (same board) count 10 … 60.
  return 60 - std::clamp(link.pcie_level, 0, 50) + 100 * static_cast<int>(std::min(link.nvlinks, 18u));
}

std::vector<std::uint32_t> align(const gpu::Inventory& inventory, std::span<const std::uint32_t> available,
                                 std::span<const std::uint32_t> required, std::uint32_t size) {
  if (size == 0) return {};
  std::vector<std::uint32_t> gpus(available.begin(), available.end());
  std::ranges::sort(gpus);
  const Scores scores(inventory, gpus);
  std::vector<std::size_t> wanted;
  for (const auto gpu : required)
    wanted.push_back(static_cast<std::size_t>(std::ranges::lower_bound(gpus, gpu) - gpus.begin()));

  std::vector<std::uint32_t> answer;
  if (gpus.size() > kMostExact) {
    for (const auto i : grow(scores, wanted, size)) answer.push_back(gpus[i]);
  } else {
    const auto bit = [&](std::size_t i) { return Mask{1} << (gpus.size() - 1 - i); };
    Mask mask = 0;
    for (const auto i : wanted) mask |= bit(i);
    const Mask chosen = Splits(scores, static_cast<int>(size)).set_with((Mask{1} << gpus.size()) - 1, mask);
    for (std::size_t i = 0; i < gpus.size(); ++i)
      if ((chosen & bit(i)) != 0) answer.push_back(gpus[i]);
  }
  std::ranges::sort(answer);
  return answer;
}

}  // namespace tranche::grants
