#include "mig/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <tuple>

#include "base/text.h"

namespace tranche::mig {
namespace {

constexpr std::uint32_t kMostSlices = 16;  // more than any GPU has
constexpr std::uint32_t kMostInstances = 64;
using Mask = std::uint32_t;
using Counts = std::array<std::uint8_t, kMostSlices + 1>;  // of compute instances, by their slices

Mask mask_of(const Placement& placement) {
  return placement.size >= 32 || placement.start >= 32 ? ~Mask{0}
                                                       : ((Mask{1} << placement.size) - 1) << placement.start;
}

// A GPU instance that is wanted, with the compute instances in it.
struct Unit {
  const Profile* profile = nullptr;
  Counts compute{};
  auto key() const { return std::tie(profile, compute); }
};

// The changes that give a present GPU instance these compute instances.
struct Inside {
  std::uint32_t held_destroyed = 0;
  std::uint32_t destroyed = 0;
  std::uint32_t created = 0;
  std::vector<Placement> placements;
  auto cost() const { return std::tie(held_destroyed, destroyed, created); }
};

// Calls take(placements) for every way to place the compute instances beside `placed`, until it returns true. The
// larger ones come first, and equal ones by start, so that each way comes once.
using Take = std::function<bool(const std::vector<Placement>&)>;
bool each_placing(std::uint32_t of, const Counts& wanted, std::vector<Placement>& placed, const Take& take) {
  std::uint32_t slices = kMostSlices;
  while (slices > 0 && wanted[slices] == 0) --slices;
  if (slices == 0) return take(placed);
  Counts rest = wanted;
  --rest[slices];
  for (const Placement& at : compute_placements(of, slices)) {
    const bool later = placed.empty() || placed.back().size != slices || placed.back().start < at.start;
    if (!later || std::ranges::any_of(placed, [&](const Placement& other) { return overlap(other, at); })) continue;
    placed.push_back(at);
    const bool done = each_placing(of, rest, placed, take);
    placed.pop_back();
    if (done) return true;
  }
  return false;
}

bool fits(std::uint32_t of, const Counts& wanted) {
  std::vector<Placement> placed;
  return each_placing(of, wanted, placed, [](const auto&) { return true; });
}

Placement placement_in(const Profile& profile, const ComputeInstance& compute) {
  return {compute.placement.start, std::min(compute.placement.size, profile.slices)};
}

Inside inside(const Profile& profile, const Counts& wanted, const GpuInstance& present) {
  std::optional<Inside> best;
  std::vector<Placement> placed;
  each_placing(profile.slices, wanted, placed, [&](const std::vector<Placement>& placements) {
    Inside one;
    one.placements = placements;
    one.created = static_cast<std::uint32_t>(placements.size());
    for (const auto& compute : present.compute) {
      if (std::ranges::find(placements, placement_in(profile, compute)) != placements.end()) {
        --one.created;
      } else {
        ++one.destroyed;
        if (compute.held || present.held) ++one.held_destroyed;
      }
    }
    if (!best || one.cost() < best->cost()) best = std::move(one);
    return best->destroyed == 0;
  });
  return best.value_or(Inside{});
}

// Every way to spread the wanted compute instances of one profile over GPU instances of it.
class Spreading {
 public:
  Spreading(const Profile& profile, const Counts& wanted, std::uint32_t most) : profile_(profile), most_(most) {
    Counts bin{};
    bins(profile.slices, profile.slices, wanted, bin);
    Counts rest = wanted;
    spread(0, rest);
  }
  const std::vector<std::vector<Unit>>& ways() const { return ways_; }

 private:
  void bins(std::uint32_t slices, std::uint32_t room, const Counts& wanted, Counts& bin) {
    if (slices == 0) {
      if (bin != Counts{} && fits(profile_.slices, bin)) bins_.push_back(bin);
      return;
    }
    for (std::uint32_t count = std::min<std::uint32_t>(wanted[slices], room / slices) + 1; count-- > 0;) {
      bin[slices] = static_cast<std::uint8_t>(count);
      bins(slices - 1, room - count * slices, wanted, bin);
    }
    bin[slices] = 0;
  }

  void spread(std::size_t from, Counts& rest) {
    if (rest == Counts{}) {
      ways_.push_back(units_);
      return;
    }
    if (units_.size() >= most_) return;
    for (std::size_t i = from; i < bins_.size(); ++i) {
      const Counts& bin = bins_[i];
      bool within = true;
      for (std::size_t s = 0; s < bin.size(); ++s) within &= bin[s] <= rest[s];
      if (!within) continue;
      for (std::size_t s = 0; s < bin.size(); ++s) rest[s] = static_cast<std::uint8_t>(rest[s] - bin[s]);
      units_.push_back({&profile_, bin});
      spread(i, rest);
      units_.pop_back();
      for (std::size_t s = 0; s < bin.size(); ++s) rest[s] = static_cast<std::uint8_t>(rest[s] + bin[s]);
    }
  }

  const Profile& profile_;
  std::uint32_t most_;
  std::vector<Counts> bins_;
  std::vector<Unit> units_;
  std::vector<std::vector<Unit>> ways_;
};

// Whether instances of these profiles may exist together, wherever they lie.
std::string why_not_together(const std::vector<Profile>& profiles, const std::vector<const Profile*>& together) {
  std::uint32_t slices = 0, most_slices = 0;              // compute slices of the whole GPU
  std::uint32_t optical_flow = 0, most_optical_flow = 0;  // engines that one instance has to itself
  for (const Profile& profile : profiles) {
    most_slices = std::max(most_slices, profile.slices);
    most_optical_flow = std::max(most_optical_flow, profile.engines[kOpticalFlowEngines]);
  }
  const Profile* all_media = nullptr;
  for (const Profile* profile : together) {
    const auto count = static_cast<std::uint32_t>(std::ranges::count(together, profile));
    if (count > profile->at_most)
      return fmt::format("the GPU has room for at most {} of {}", profile->at_most, profile->name);
    slices += profile->slices;
    optical_flow += profile->engines[kOpticalFlowEngines];
    if (profile->name.ends_with("+me.all")) all_media = profile;
  }
  if (slices > most_slices) return fmt::format("they take {} compute slices and the GPU has {}", slices, most_slices);
  if (optical_flow > most_optical_flow) return "only one instance can have the GPU's media engines (+me)";
  if (all_media != nullptr)
    for (const Profile* profile : together)
      if (profile != all_media && !profile->name.ends_with("-me"))
        return fmt::format("{} takes every media engine, so each other instance must be one with -me", all_media->name);
  return {};
}

// Depth-first over every legal placement of the units.
class Search {
 public:
  // `beside`: held instances stay in any case, also such as are in no unit.
  Search(const std::vector<Profile>& profiles, const std::vector<GpuInstance>& present, bool beside)
      : profiles_(profiles), present_(present), beside_(beside) {
    for (const auto& instance : present) held_ += instance.busy() ? 1 : 0;
    for (const Profile& profile : profiles)
      if (profile.name.ends_with("gb") && !profile.placements.empty()) by_size_.push_back(&profile);
    std::ranges::sort(by_size_, [](const Profile* a, const Profile* b) {
      return std::tuple(b->placements.front().size, b->slices) < std::tuple(a->placements.front().size, a->slices);
    });
  }

  void run(std::vector<Unit> units) {
    std::ranges::sort(units, [](const Unit& a, const Unit& b) {
      return std::tuple(b.profile->placements.front().size, a.profile->id, b.compute) <
             std::tuple(a.profile->placements.front().size, b.profile->id, a.compute);
    });
    units_ = std::move(units);
    at_.assign(units_.size(), {});
    insides_.assign(units_.size(), {});
    place(0, 0);
  }

  std::optional<ChosenLayout> take() {
    if (best_) std::ranges::sort(best_->layout.parts, {}, &Part::placement);
    return std::move(best_);
  }

 private:
  void place(std::size_t unit, Mask used) {
    if (unit == units_.size()) return finish(used);
    const bool same = unit > 0 && units_[unit].key() == units_[unit - 1].key();
    for (const Placement& at : units_[unit].profile->placements) {
      if ((used & mask_of(at)) != 0 || (same && at.start < at_[unit - 1].start)) continue;
      if (beside_ && takes_from_held(*units_[unit].profile, at)) continue;
      at_[unit] = at;
      place(unit + 1, used | mask_of(at));
    }
  }

  bool takes_from_held(const Profile& profile, const Placement& at) const {
    return std::ranges::any_of(present_, [&](const GpuInstance& instance) {
      return instance.busy() && !instance.is_at(profile.id, at) && overlap(instance.placement, at);
    });
  }

  // Whether the units may exist together with the held instances that are not among them.
  bool has_room_for_held() const {
    std::vector<const Profile*> together;
    for (const Unit& unit : units_) together.push_back(unit.profile);
    for (const auto& instance : present_) {
      bool unit = false;
      for (std::size_t i = 0; i < units_.size(); ++i) unit |= present_at(units_[i], at_[i]) == &instance;
      const Profile* profile = find_profile(profiles_, instance.profile_id);
      if (instance.busy() && !unit && profile != nullptr) together.push_back(profile);
    }
    return why_not_together(profiles_, together).empty();
  }

  const GpuInstance* present_at(const Unit& unit, const Placement& at) const {
    for (const auto& instance : present_)
      if (instance.is_at(unit.profile->id, at)) return &instance;
    return nullptr;
  }

  const Inside& inside_of(std::size_t unit, const GpuInstance& instance) {
    for (auto& [id, known] : insides_[unit])
      if (id == instance.id) return known;
    insides_[unit].emplace_back(instance.id, inside(*units_[unit].profile, units_[unit].compute, instance));
    return insides_[unit].back().second;
  }

  void finish(Mask used) {
    Cost cost;
    std::uint32_t kept = 0, held_kept = 0;
    for (std::size_t i = 0; i < units_.size(); ++i) {
      const GpuInstance* instance = present_at(units_[i], at_[i]);
      if (instance == nullptr) continue;
      ++kept;
      held_kept += instance->busy() ? 1 : 0;
      const Inside& in = inside_of(i, *instance);
      cost.held_destroyed += in.held_destroyed;
      cost.compute_destroyed += in.destroyed;
      cost.compute_created += in.created;
    }
    if (beside_ && (cost.held_destroyed > 0 || !has_room_for_held())) return;
    cost.held_destroyed += held_ - held_kept;
    cost.instances_destroyed = static_cast<std::uint32_t>(present_.size()) - kept;
    cost.instances_created = static_cast<std::uint32_t>(units_.size()) - kept;
    if (best_ && cost > best_->cost) return;
    const auto rank = rank_of(used);
    if (best_ && cost == best_->cost && !(rank > best_rank_)) return;
    best_rank_ = rank;
    best_ = ChosenLayout{{true, parts()}, cost};
  }

  // How much room is left, of the largest kind first. Earlier placements are tried first, so that ties go to them.
  std::vector<std::uint32_t> rank_of(Mask used) const {
    std::vector<std::uint32_t> rank;
    for (const Profile* profile : by_size_)
      rank.push_back(static_cast<std::uint32_t>(std::ranges::count_if(
          profile->placements, [used](const Placement& at) { return (used & mask_of(at)) == 0; })));
    return rank;
  }

  std::vector<Part> parts() {
    std::vector<Part> parts;
    for (std::size_t i = 0; i < units_.size(); ++i) {
      const GpuInstance* instance = present_at(units_[i], at_[i]);
      const Inside in =
          instance != nullptr ? inside_of(i, *instance) : inside(*units_[i].profile, units_[i].compute, GpuInstance{});
      parts.push_back({units_[i].profile->id, units_[i].profile->name, at_[i], in.placements});
      std::ranges::sort(parts.back().compute);
    }
    return parts;
  }

  const std::vector<Profile>& profiles_;
  const std::vector<GpuInstance>& present_;
  bool beside_;
  std::uint32_t held_ = 0;
  std::vector<const Profile*> by_size_;
  std::vector<Unit> units_;
  std::vector<Placement> at_;
  std::vector<std::vector<std::pair<std::uint32_t, Inside>>> insides_;
  std::optional<ChosenLayout> best_;
  std::vector<std::uint32_t> best_rank_;
};

}  // namespace

Layout layout_of(const GpuState& gpu) {
  Layout layout{.enabled = gpu.enabled};
  for (const auto& instance : gpu.instances) {
    layout.parts.push_back(
        {instance.profile_id, profile_name(gpu.profiles, instance.profile_id), instance.placement, {}});
    for (const auto& compute : instance.compute) layout.parts.back().compute.push_back(compute.placement);
    std::ranges::sort(layout.parts.back().compute);
  }
  return layout;
}

Layout with_mode(const GpuState& gpu, bool on) {
  Layout layout = on && gpu.enabled ? layout_of(gpu) : Layout{};
  layout.enabled = on;
  return layout;
}

std::string to_string(const Layout& layout) {
  if (!layout.enabled) return "MIG off";
  if (layout.parts.empty()) return "MIG on, no instances";
  return join(layout.parts, ", ", [](const Part& part) {
    return fmt::format("{} at {}{}", part.profile, part.placement.start,
                       part.compute.empty() ? " without a compute instance" : "");
  });
}

std::expected<ChosenLayout, NoLayout> choose_layout(const std::vector<Profile>& profiles, const Instances& wanted,
                                                    const std::vector<GpuInstance>& present, bool beside_held) {
  if (profiles.empty())
    return std::unexpected(NoLayout{"the MIG profiles of this GPU are not known",
                                    "a driver older than 550 lists them only while MIG is on"});
  std::vector<std::pair<const Profile*, Counts>> by_profile;
  std::uint32_t total = 0;
  for (const auto& [name, count] : wanted) {
    const Profile* profile = resolve_profile(profiles, name);
    if (profile == nullptr)
      return std::unexpected(NoLayout{"the GPU has no profile " + name.gpu_instance(), "it has " + list_of(profiles)});
    if (profile->placements.empty())
      return std::unexpected(NoLayout{"the driver does not list the placements of " + profile->name, "run it as root"});
    total += count;
    const std::uint32_t most = profile->at_most * profile->slices;
    auto found = std::ranges::find(by_profile, profile, &std::pair<const Profile*, Counts>::first);
    if (found == by_profile.end()) found = by_profile.insert(by_profile.end(), {profile, Counts{}});
    std::uint32_t slices = count * name.compute_slices;
    for (std::uint32_t s = 1; s < found->second.size(); ++s) slices += found->second[s] * s;
    if (total > kMostInstances || slices > most || name.compute_slices > kMostSlices)
      return std::unexpected(NoLayout{fmt::format("{} is more than the GPU has room for", to_string(wanted)),
                                      fmt::format("at most {} of {} fit", profile->at_most, profile->name)});
    found->second[name.compute_slices] = static_cast<std::uint8_t>(found->second[name.compute_slices] + count);
  }
  std::vector<std::vector<std::vector<Unit>>> ways;
  for (const auto& [profile, counts] : by_profile) {
    ways.push_back(Spreading(*profile, counts, profile->at_most).ways());
    if (ways.back().empty())
      return std::unexpected(
          NoLayout{fmt::format("the compute instances of {} do not fit into {} of it", profile->name, profile->at_most),
                   "ask for fewer or smaller ones"});
  }
  Search search(profiles, present, beside_held);
  std::string why;
  std::vector<Unit> units;
  const std::function<void(std::size_t)> combine = [&](std::size_t i) {
    if (i < ways.size()) {
      for (const auto& way : ways[i]) {
        units.insert(units.end(), way.begin(), way.end());
        combine(i + 1);
        units.resize(units.size() - way.size());
      }
      return;
    }
    std::vector<const Profile*> together;
    for (const Unit& unit : units) together.push_back(unit.profile);
    if (auto not_together = why_not_together(profiles, together); !not_together.empty()) {
      why = std::move(not_together);
    } else {
      search.run(units);
    }
  };
  combine(0);
  if (auto layout = search.take()) return *std::move(layout);
  return std::unexpected(NoLayout{fmt::format("{} have no layout: {}", to_string(wanted),
                                              why.empty() ? "their placements overlap in every arrangement" : why),
                                  "ask for fewer or smaller instances; tranche mig profiles shows the placements"});
}

Instances largest_beside(const std::vector<Profile>& profiles, const Instances& wanted,
                         const std::vector<GpuInstance>& present) {
  Instances best, part;
  std::uint32_t best_slices = 0;
  const std::vector<std::pair<ProfileName, std::uint32_t>> list(wanted.begin(), wanted.end());
  const std::function<void(std::size_t, std::uint32_t)> choose = [&](std::size_t i, std::uint32_t slices) {
    if (i < list.size()) {
      const auto& [name, count] = list[i];
      for (std::uint32_t n = 0; n <= std::min(count, kMostSlices); ++n) {
        if (n > 0) part[name] = n;
        choose(i + 1, slices + n * name.compute_slices);
      }
      part.erase(name);
    } else if (slices > best_slices && choose_layout(profiles, part, present, true)) {
      best = part;
      best_slices = slices;
    }
  };
  choose(0, 0);
  return best;
}

std::vector<Placement> free_placements(const Profile& profile, const std::vector<GpuInstance>& present) {
  std::vector<Placement> free;
  for (const Placement& at : profile.placements)
    if (std::ranges::none_of(present, [&](const GpuInstance& instance) { return overlap(instance.placement, at); }))
      free.push_back(at);
  return free;
}

std::uint32_t room_for(const std::vector<Profile>& profiles, const Profile& profile,
                       const std::vector<GpuInstance>& present) {
  std::vector<const Profile*> together;
  for (const auto& instance : present)
    if (const Profile* one = find_profile(profiles, instance.profile_id)) together.push_back(one);
  std::uint32_t count = 0, end = 0;
  // All placements of a profile have one size, so the lowest first leaves the most room.
  for (const Placement& at : free_placements(profile, present)) {
    if (count > 0 && at.start < end) continue;
    together.push_back(&profile);
    if (!why_not_together(profiles, together).empty()) break;
    ++count;
    end = at.start + at.size;
  }
  return count;
}

}  // namespace tranche::mig
