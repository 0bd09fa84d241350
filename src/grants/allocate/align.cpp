#include "grants/allocate/prefer.h"

#include <algorithm>
#include <array>
#include <bit>

namespace tranche::grants {
namespace {

using Mask = std::uint32_t;
constexpr std::size_t kMostExact = 16;

class Scores {
 public:
  Scores(const gpu::Inventory& inventory, std::span<const std::uint32_t> gpus)
      : count_(gpus.size()), table_(count_ * count_) {
    constexpr auto kAbsent = static_cast<std::size_t>(-1);
    std::vector<std::size_t> place(inventory.gpus.size(), kAbsent);
    for (std::size_t i = 0; i < count_; ++i) {
      if (gpus[i] < place.size()) place[gpus[i]] = i;
    }
    for (const auto& link : inventory.links) {
      if (link.a >= place.size() || link.b >= place.size()) continue;
      const std::size_t a = place[link.a];
      const std::size_t b = place[link.b];
      if (a != kAbsent && b != kAbsent) table_[a * count_ + b] = table_[b * count_ + a] = pair_score(link);
    }
  }
  std::size_t count() const { return count_; }
  int pair(std::size_t i, std::size_t j) const { return table_[i * count_ + j]; }

 private:
  std::size_t count_;
  std::vector<int> table_;
};

// The rank of a way to split some GPUs, as one number to compare: in the high bits the sum of all pair scores inside
// sets; below it the name of its best full set, which is the set's own score and then the set, its lowest position in
// the highest bit. So the greatest Rank has the greatest sum, then the best set to hand out, then the lowest
// positions; and since sums add up and the best name is a maximum, the greatest Rank of a whole is made of the
// greatest Ranks of its parts.
using Rank = std::uint64_t;
constexpr int kSetBits = kMostExact;
constexpr int kScoreBits = 18;  // 120 pairs of 1860 each
constexpr int kNameBits = kSetBits + kScoreBits;
constexpr Rank kNameMask = (Rank{1} << kNameBits) - 1;
constexpr Rank kUnknown = ~Rank{0};
static_assert(120 * 1860 < 1 << kScoreBits && kNameBits + kScoreBits < 64);

Rank reversed(Mask set) {
  Rank out = 0;
  for (int bit = 0; bit < kSetBits; ++bit, set >>= 1) out = out << 1 | (set & 1);
  return out;
}

Rank sum_of(Rank rank) {
  return rank & ~kNameMask;
}

Rank together(Rank a, Rank b) {
  return sum_of(a) + sum_of(b) + std::max(a & kNameMask, b & kNameMask);
}

// The subsets of a mask by number: bit i of the number stands for the mask's i-th member. Two small tables instead of a
// loop, because this is done a million times.
class Subsets {
 public:
  explicit Subsets(Mask mask) {
    members_ = std::popcount(mask);
    low_members_ = (members_ + 1) / 2;
    mask = fill(low_, mask, low_members_);
    fill(high_, mask, members_ - low_members_);
  }
  std::uint32_t count() const { return std::uint32_t{1} << members_; }
  Mask operator[](std::uint32_t number) const {
    return low_[number & ((1U << low_members_) - 1)] | high_[number >> low_members_];
  }

 private:
  static Mask fill(std::array<Mask, 256>& table, Mask mask, int members) {
    table[0] = 0;
    for (std::size_t size = 1; members > 0; --members, size *= 2, mask &= mask - 1) {
      for (std::size_t i = 0; i < size; ++i) table[size + i] = table[i] | (mask & (~mask + 1));
    }
    return mask;
  }
  int members_;
  int low_members_;
  std::array<Mask, 256> low_;
  std::array<Mask, 256> high_;
};

// All numbers of 16 bits or fewer that have `ones` ones, ascending, and one more that ends every list.
constexpr std::uint32_t kEnd = ~std::uint32_t{0};
std::vector<std::uint32_t> numbers_with(int ones, std::size_t bits) {
  std::vector<std::uint32_t> numbers;
  const std::uint32_t limit = 1U << bits;
  for (std::uint32_t number = (1U << ones) - 1; number < limit;) {
    numbers.push_back(number);
    if (number == 0) break;
    const std::uint32_t low = number & (~number + 1);  // the next greater number with as many ones
    const std::uint32_t carried = number + low;
    number = carried | ((number ^ carried) / low >> 2);
  }
  numbers.push_back(kEnd);
  return numbers;
}

// The best split of any subset of at most 16 GPUs into sets of one size, the remainder forming one smaller set. A set
// is always taken with the lowest member of what is left, so no split is looked at twice, and of the 65536 subsets only
// those that can be left over are ever worked out: at most 0.9 million steps (16 GPUs by 6) instead of all partitions.
class Splits {
 public:
  Splits(const Scores& scores, int size)
      : size_(size),
        remainder_(static_cast<int>(scores.count()) % size),
        rank_(std::size_t{1} << scores.count(), kUnknown),
        fulls_(numbers_with(size_ - 1, scores.count())),
        remainders_(numbers_with(std::max(remainder_ - 1, 0), scores.count())) {
    // inside(set) = inside(without its lowest) + inside(without its highest) - inside(without both) + that pair.
    std::vector<std::uint32_t> inside(rank_.size());
    for (Mask set = 1; set < rank_.size(); ++set) {
      const Mask low = set & (~set + 1);
      const Mask high = std::bit_floor(set);
      if (low != high) {
        const auto pair = scores.pair(static_cast<std::size_t>(std::countr_zero(low)),
                                      static_cast<std::size_t>(std::countr_zero(high)));
        inside[set] = inside[set ^ low] + inside[set ^ high] - inside[set ^ low ^ high] + static_cast<Mask>(pair);
      }
      const int members = std::popcount(set);
      if (members == size_) rank_[set] = Rank{inside[set]} << kNameBits | Rank{inside[set]} << kSetBits | reversed(set);
      if (members == remainder_) rank_[set] = Rank{inside[set]} << kNameBits;
    }
    rank_[0] = 0;
  }

  // The set to hand out of the best split of `all` that has a full set with all of `required`.
  Mask set_with(Mask all, Mask required) {
    Rank found = 0;
    if (required == 0) {
      found = best(all);
    } else {
      const Subsets subsets(all ^ required);
      for (const auto number :
           numbers_with(size_ - std::popcount(required), static_cast<std::size_t>(std::popcount(all ^ required)))) {
        if (number == kEnd) break;
        const Mask set = subsets[number] | required;
        found = std::max(found, rank_[set] + sum_of(best(all ^ set)));
      }
    }
    return static_cast<Mask>(reversed(static_cast<Mask>(found)));
  }

 private:
  Rank best(Mask mask) {
    if (rank_[mask] != kUnknown) return rank_[mask];
    const Mask low = mask & (~mask + 1);
    const Subsets subsets(mask ^ low);
    Rank found = best_of(mask, low, subsets, fulls_);
    if (std::popcount(mask) % size_ != 0) found = std::max(found, best_of(mask, low, subsets, remainders_));
    return rank_[mask] = found;
  }

  Rank best_of(Mask mask, Mask low, const Subsets& subsets, const std::vector<std::uint32_t>& numbers) {
    Rank found = 0;
    for (const std::uint32_t* number = numbers.data(); *number < subsets.count(); ++number) {
      const Mask set = subsets[*number] | low;
      const Rank rest = rank_[mask ^ set];
      found = std::max(found, together(rank_[set], rest == kUnknown ? best(mask ^ set) : rest));
    }
    return found;
  }

  int size_;
  int remainder_;
  std::vector<Rank> rank_;                 // by subset; kUnknown until it is needed
  std::vector<std::uint32_t> fulls_;       // which of the others join the lowest in a full set
  std::vector<std::uint32_t> remainders_;  // or in the remainder
};

std::vector<std::size_t> grow(const Scores& scores, std::vector<std::size_t> set, std::size_t size) {
  if (set.empty()) set.push_back(0);
  while (set.size() < size) {
    std::size_t best = scores.count();
    int best_score = -1;
    for (std::size_t i = 0; i < scores.count(); ++i) {
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
    Mask mask = 0;
    for (const auto i : wanted) mask |= Mask{1} << i;
    const auto all = static_cast<Mask>((std::size_t{1} << gpus.size()) - 1);
    Splits splits(scores, static_cast<int>(size));
    for (Mask m = splits.set_with(all, mask); m != 0; m &= m - 1)
      answer.push_back(gpus[static_cast<std::size_t>(std::countr_zero(m))]);
  }
  std::ranges::sort(answer);
  return answer;
}

}  // namespace tranche::grants
