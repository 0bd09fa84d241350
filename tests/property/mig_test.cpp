// The search for a layout against every layout there is: each set of instances of each GPU model reached from each
// other, with the fewest held instances destroyed, then the fewest instances at all. Everyday from one layout of each
// set; with TRANCHE_PROPERTY_ROUNDS from every layout of each.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>

#include "gpu/models/models.h"
#include "mig/mig_plan.h"

namespace tranche::mig {
namespace {

struct At {
  std::uint32_t profile;  // position in the table
  Placement placement;
  friend auto operator<=>(const At&, const At&) = default;
};
using Cut = std::vector<At>;                    // by placement
using Set = std::map<std::uint32_t, unsigned>;  // by position in the table

// Written anew, without the search's code: all subsets of the placements that the driver's rules allow.
class EveryLayout {
 public:
  explicit EveryLayout(const std::vector<Profile>& profiles) : profiles_(profiles) {
    for (std::uint32_t i = 0; i < profiles.size(); ++i) {
      slices_ = std::max(slices_, profiles[i].slices);
      for (const Placement& at : profiles[i].placements) all_.push_back({i, at});
    }
    Cut cut;
    choose(0, 0, cut);
  }
  std::map<Set, std::vector<Cut>> by_set;
  std::size_t count = 0;

 private:
  void choose(std::size_t from, std::uint32_t used, Cut& cut) {
    if (from == all_.size()) {
      if (!allowed(cut)) return;
      Set set;
      for (const At& at : cut) ++set[at.profile];
      auto sorted = cut;
      std::ranges::sort(sorted, {}, &At::placement);
      by_set[set].push_back(std::move(sorted));
      ++count;
      return;
    }
    choose(from + 1, used, cut);
    const Placement& at = all_[from].placement;
    std::uint32_t bits = 0;
    for (std::uint32_t i = 0; i < at.size; ++i) bits |= 1u << (at.start + i);
    if ((used & bits) != 0) return;
    cut.push_back(all_[from]);
    choose(from + 1, used | bits, cut);
    cut.pop_back();
  }

  bool allowed(const Cut& cut) const {
    std::map<std::uint32_t, unsigned> counts;
    unsigned slices = 0, exclusive = 0, all_media = 0, media = 0;
    for (const At& at : cut) {
      const std::string& name = profiles_[at.profile].name;
      if (++counts[at.profile] > profiles_[at.profile].at_most) return false;
      slices += profiles_[at.profile].slices;
      exclusive += profiles_[at.profile].engines[kOpticalFlowEngines];
      all_media += name.ends_with("+me.all") ? 1 : 0;
      media += name.ends_with("-me") ? 0 : 1;
    }
    return slices <= slices_ && exclusive <= 1 && (all_media == 0 || media == 1);
  }

  const std::vector<Profile>& profiles_;
  std::vector<At> all_;
  std::uint32_t slices_ = 0;
};

std::size_t rounds() {
  const char* text = std::getenv("TRANCHE_PROPERTY_ROUNDS");
  return text == nullptr ? 0 : std::strtoul(text, nullptr, 10);
}

struct Expected {
  unsigned held = ~0u;
  unsigned destroyed = ~0u;
  friend auto operator<=>(const Expected&, const Expected&) = default;
};

Expected cheapest(const std::vector<Cut>& targets, const Cut& from, std::uint32_t held) {
  Expected best;
  for (const Cut& to : targets) {
    Expected one{0, 0};
    for (std::size_t i = 0; i < from.size(); ++i) {
      if (std::ranges::find(to, from[i]) != to.end()) continue;
      ++one.destroyed;
      if ((held >> i & 1) != 0) ++one.held;
    }
    best = std::min(best, one);
  }
  return best;
}

std::vector<GpuInstance> instances_of(const std::vector<Profile>& profiles, const Cut& cut, std::uint32_t held) {
  std::vector<GpuInstance> present;
  for (std::uint32_t i = 0; i < cut.size(); ++i) {
    const Profile& profile = profiles[cut[i].profile];
    present.push_back({.id = i, .profile_id = profile.id, .placement = cut[i].placement});
    present.back().compute = {{.id = 0, .placement = {0, profile.slices}}};
    present.back().held = (held >> i & 1) != 0;
  }
  return present;
}

// What is wrong with a chosen layout; "" = nothing.
std::string judge(const std::vector<Profile>& profiles, const EveryLayout& every, const Set& wanted, const Cut& from,
                  std::uint32_t held) {
  Instances names;
  for (const auto& [profile, count] : wanted) names[*parse_profile_name(profiles[profile].name)] = count;
  const auto& targets = every.by_set.at(wanted);
  const auto layout = choose_layout(profiles, names, instances_of(profiles, from, held));
  if (!layout) return "no layout: " + layout.error().what;
  Cut cut;
  std::size_t kept = 0;
  for (const GpuInstance& part : layout->instances) {
    const auto* profile = find_profile(profiles, part.profile_id);
    cut.push_back({static_cast<std::uint32_t>(profile - profiles.data()), part.placement});
    if (std::ranges::find(from, cut.back()) != from.end()) ++kept;
  }
  if (std::ranges::find(targets, cut) == targets.end()) return "it is no legal layout of the set";
  const Expected best = cheapest(targets, from, held);
  if (layout->cost.held_destroyed != best.held) return "a held instance is destroyed without need";
  if (layout->cost.instances_destroyed != best.destroyed) return "an instance is destroyed without need";
  if (layout->cost.instances_created != cut.size() - kept) return "it counts its own steps wrongly";
  return "";
}

std::size_t compare(const gpu::GpuModel& model, bool every_layout, std::size_t most) {
  const EveryLayout every(model.profiles);
  std::mt19937 random(20261124);
  std::size_t compared = 0, failed = 0;
  std::vector<const Cut*> starts;
  for (const auto& [set, layouts] : every.by_set) {
    if (every_layout)
      for (const Cut& one : layouts) starts.push_back(&one);
    else
      starts.push_back(&layouts[random() % layouts.size()]);
  }
  std::ranges::shuffle(starts, random);
  for (const Cut* from : starts) {
    for (const auto& [wanted, targets] : every.by_set) {
      if (compared >= most || failed > 3) return compared;
      if (starts.size() * every.by_set.size() > most && random() % 4 != 0) continue;
      const std::uint32_t held = static_cast<std::uint32_t>(random() & random());
      const std::string wrong = judge(model.profiles, every, wanted, *from, held);
      ++compared;
      if (wrong.empty()) continue;
      ++failed;
      std::string text;
      for (const At& at : *from) text += model.profiles[at.profile].name + " at " + to_string(at.placement) + ", ";
      text += "held " + std::to_string(held) + ", to ";
      for (const auto& [profile, count] : wanted)
        text += std::to_string(count) + " " + model.profiles[profile].name + " ";
      ADD_FAILURE() << model.key << ": " << wrong << ": from " << text;
    }
  }
  return compared;
}

// The counts of the driver's grids that are known from elsewhere: all layouts, and sets of instances.
TEST(MigProperty, TheRulesGiveTheKnownNumberOfLayouts) {
  const EveryLayout a100(gpu::find_model("A100-SXM4-40GB")->profiles);
  EXPECT_EQ(a100.count, 2319u);
  EXPECT_EQ(a100.by_set.size(), 128u);
  // By placements alone 84 and 22; but 1g.6gb+me and 2g.12gb+me want the same engines, of which an A30 has one set.
  const EveryLayout a30(gpu::find_model("A30")->profiles);
  EXPECT_EQ(a30.count, 76u);
  EXPECT_EQ(a30.by_set.size(), 20u);
  std::vector<Profile> plain;
  for (const Profile& profile : gpu::find_model("RTX-PRO-6000")->profiles)
    if (profile.name.ends_with("gb")) plain.push_back(profile);
  const EveryLayout rtx(plain);
  EXPECT_EQ(rtx.count, 26u);
  EXPECT_EQ(rtx.by_set.size(), 10u);
}

// Promise: mig/plan: Every set is reached from every other with the fewest instances destroyed, held ones above all.
TEST(MigProperty, EverySetIsReachedFromEveryOtherAtTheLeastCost) {
  const bool slow = rounds() > 0;
  for (const gpu::GpuModel& model : gpu::mig_models()) {
    const std::size_t compared = compare(model, slow, slow ? ~std::size_t{0} : 2000);
    EXPECT_GE(compared, 400u) << model.key;
  }
}

}  // namespace
}  // namespace tranche::mig
