#include "mig/mig_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>

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

// The changes that give a present GPU instance these compute instances.
struct Inside {
  Cost cost{};
  std::vector<Placement> placements{};
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

Inside inside(const Profile& profile, const Counts& wanted, const GpuInstance& present) {
  std::optional<Inside> best;
  std::vector<Placement> placed;
  each_placing(profile.slices, wanted, placed, [&](const std::vector<Placement>& placements) {
    Inside one{{.compute_created = static_cast<std::uint32_t>(placements.size())}, placements};
    for (const auto& compute : present.compute) {
      const Placement at{compute.placement.start, std::min(compute.placement.size, profile.slices)};
      if (std::ranges::find(placements, at) != placements.end()) {
        --one.cost.compute_created;
      } else {
        ++one.cost.compute_destroyed;
        if (compute.held || present.held) ++one.cost.held_destroyed;
      }
    }
    if (!best || one.cost < best->cost) best = std::move(one);
    return best->cost.compute_destroyed == 0;
  });
  return best.value_or(Inside{});
}

// Those of the wanted compute instances that one GPU instance can have, in every combination.
void add_bins(std::uint32_t of, std::uint32_t slices, std::uint32_t room, const Counts& wanted, Counts& bin,
              std::vector<Counts>& bins) {
  if (slices == 0) {
    if (bin != Counts{} && fits(of, bin)) bins.push_back(bin);
    return;
  }
  for (std::uint32_t count = std::min<std::uint32_t>(wanted[slices], room / slices) + 1; count-- > 0;) {
    bin[slices] = static_cast<std::uint8_t>(count);
    add_bins(of, slices - 1, room - count * slices, wanted, bin, bins);
  }
}

// The wanted compute instances of one profile.
struct Wanted {
  const Profile* profile = nullptr;
  Counts compute{};
  std::vector<Counts> bins{};  // that a GPU instance can have of them
};

// A GPU instance, with the compute instances in it.
struct Unit {
  const Profile* profile = nullptr;
  Counts compute{};
  Placement at;
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

// Depth-first over every legal way to place GPU instances, and to spread the wanted compute instances over them.
class Search {
 public:
  // `beside`: held instances stay in any case, also such as are in no unit.
  Search(const std::vector<Profile>& profiles, std::vector<Wanted> wanted, const std::vector<GpuInstance>& present,
         bool beside)
      : profiles_(profiles), wanted_(std::move(wanted)), present_(present), beside_(beside) {
    for (const auto& instance : present) held_ += instance.busy() ? 1 : 0;
    for (const Profile& profile : profiles)
      if (profile.name.ends_with("gb") && !profile.placements.empty()) by_size_.push_back(&profile);
    const auto larger = [](const Profile* profile) {
      return std::pair(~profile->placements.front().size, ~profile->slices);
    };
    std::ranges::sort(by_size_, {}, larger);
    std::ranges::sort(wanted_, {}, [](const Wanted& one) {
      return std::pair(~one.profile->placements.front().size, one.profile->id);
    });
    place(0, {}, 0, 0);
  }

  std::optional<ChosenLayout> take() {
    if (best_) std::ranges::sort(best_->instances, {}, &GpuInstance::placement);
    return std::move(best_);
  }

 private:
  // rest: of wanted_[of - 1]. from: the first placement that its next GPU instance may have.
  void place(std::size_t of, const Counts& rest, std::size_t from, Mask used) {
    if (rest == Counts{}) return of == wanted_.size() ? finish(used) : place(of + 1, wanted_[of].compute, 0, used);
    const auto& [profile, all, bins] = wanted_[of - 1];
    together_.push_back(profile);
    const bool may_be = why_not_together(profiles_, together_).empty();
    for (const Counts& bin : bins) {
      Counts left = rest;
      bool within = may_be;
      for (std::size_t s = 0; s < bin.size(); ++s) {
        within &= bin[s] <= rest[s];
        left[s] = static_cast<std::uint8_t>(rest[s] - bin[s]);
      }
      for (std::size_t i = from; within && i < profile->placements.size(); ++i) {
        const Placement& at = profile->placements[i];
        if ((used & mask_of(at)) != 0 || (beside_ && takes_from_held(*profile, at))) continue;
        units_.push_back({profile, bin, at});
        place(of, left, i + 1, used | mask_of(at));
        units_.pop_back();
      }
    }
    together_.pop_back();
  }

  bool takes_from_held(const Profile& profile, const Placement& at) const {
    return std::ranges::any_of(present_, [&](const GpuInstance& instance) {
      return instance.busy() && !instance.is_at(profile.id, at) && overlap(instance.placement, at);
    });
  }

  // Whether the units may exist together with the held instances that are not among them.
  bool has_room_for_held() const {
    auto together = together_;
    for (const auto& instance : present_) {
      const bool unit =
          std::ranges::any_of(units_, [&](const Unit& one) { return instance.is_at(one.profile->id, one.at); });
      const Profile* profile = find_profile(profiles_, instance.profile_id);
      if (instance.busy() && !unit && profile != nullptr) together.push_back(profile);
    }
    return why_not_together(profiles_, together).empty();
  }

  void finish(Mask used) {
    ChosenLayout found;
    Cost& cost = found.cost;
    std::uint32_t kept = 0, held_kept = 0;
    for (const Unit& unit : units_) {
      const auto instance = find_at(present_, unit.profile->id, unit.at);
      const bool is_there = instance != present_.end();
      const Inside in = inside(*unit.profile, unit.compute, is_there ? *instance : GpuInstance{});
      auto& made = found.instances.emplace_back(kNotMadeYet, unit.profile->id, unit.at);
      for (const Placement& at : in.placements) made.compute.push_back({.id = kNotMadeYet, .placement = at});
      std::ranges::sort(made.compute, {}, &ComputeInstance::placement);
      if (!is_there) continue;
      ++kept;
      held_kept += instance->busy() ? 1 : 0;
      cost.held_destroyed += in.cost.held_destroyed;
      cost.compute_destroyed += in.cost.compute_destroyed;
      cost.compute_created += in.cost.compute_created;
    }
    if (beside_ && (cost.held_destroyed > 0 || !has_room_for_held())) return;
    cost.held_destroyed += held_ - held_kept;
    cost.instances_destroyed = static_cast<std::uint32_t>(present_.size()) - kept;
    cost.instances_created = static_cast<std::uint32_t>(units_.size()) - kept;
    if (best_ && cost > best_->cost) return;
    auto rank = rank_of(used);
    if (best_ && cost == best_->cost && !(rank > best_rank_)) return;
    best_rank_ = std::move(rank);
    best_ = std::move(found);
  }

  // How much room is left, of the largest kind first. Earlier placements are tried first, so that ties go to them.
  std::vector<std::uint32_t> rank_of(Mask used) const {
    std::vector<std::uint32_t> rank;
    for (const Profile* profile : by_size_)
      rank.push_back(static_cast<std::uint32_t>(std::ranges::count_if(
          profile->placements, [used](const Placement& at) { return (used & mask_of(at)) == 0; })));
    return rank;
  }

  const std::vector<Profile>& profiles_;
  std::vector<Wanted> wanted_;
  const std::vector<GpuInstance>& present_;
  bool beside_;
  std::uint32_t held_ = 0;
  std::vector<const Profile*> by_size_;
  std::vector<Unit> units_;
  std::vector<const Profile*> together_;  // of the units
  std::optional<ChosenLayout> best_;
  std::vector<std::uint32_t> best_rank_;
};

}  // namespace

GpuState with_mode(GpuState gpu, bool on) {
  if (!on || !gpu.enabled) gpu.instances.clear();
  gpu.enabled = on;
  return gpu;
}

std::string layout_text(const GpuState& gpu) {
  if (!gpu.enabled) return "MIG off";
  if (gpu.instances.empty()) return "MIG on, no instances";
  return join(gpu.instances, ", ", [&](const GpuInstance& one) {
    return fmt::format("{} at {}{}", profile_name(gpu.profiles, one.profile_id), one.placement.start,
                       one.compute.empty() ? " without a compute instance" : "");
  });
}

std::expected<ChosenLayout, NoLayout> choose_layout(const std::vector<Profile>& profiles, const Instances& wanted,
                                                    const std::vector<GpuInstance>& present, bool beside_held) {
  if (profiles.empty())
    return std::unexpected(NoLayout{"the MIG profiles of this GPU are not known",
                                    "a driver older than 550 lists them only while MIG is on"});
  std::vector<Wanted> by_profile;
  std::uint32_t total = 0;
  for (const auto& [name, count] : wanted) {
    const Profile* profile = resolve_profile(profiles, name);
    if (profile == nullptr)
      return std::unexpected(NoLayout{"the GPU has no profile " + name.gpu_instance(), "it has " + list_of(profiles)});
    if (profile->placements.empty())
      return std::unexpected(NoLayout{"the driver does not list the placements of " + profile->name, "run it as root"});
    total += count;
    const std::uint32_t most = profile->at_most * profile->slices;
    auto found = std::ranges::find(by_profile, profile, &Wanted::profile);
    if (found == by_profile.end()) found = by_profile.insert(by_profile.end(), {profile});
    std::uint32_t slices = count * name.compute_slices;
    for (std::uint32_t s = 1; s < found->compute.size(); ++s) slices += found->compute[s] * s;
    if (total > kMostInstances || slices > most || name.compute_slices > kMostSlices)
      return std::unexpected(NoLayout{fmt::format("{} is more than the GPU has room for", to_string(wanted)),
                                      fmt::format("at most {} of {} fit", profile->at_most, profile->name)});
    found->compute[name.compute_slices] = static_cast<std::uint8_t>(found->compute[name.compute_slices] + count);
  }
  std::vector<const Profile*> fewest;  // GPU instances that have room for the set, if there is a way to spread it
  for (auto& [profile, compute, bins] : by_profile) {
    Counts bin{};
    add_bins(profile->slices, profile->slices, profile->slices, compute, bin, bins);
    std::uint32_t slices = profile->slices - 1;
    for (std::uint32_t s = 1; s < compute.size(); ++s) slices += compute[s] * s;
    fewest.insert(fewest.end(), slices / profile->slices, profile);
  }
  std::string why = why_not_together(profiles, fewest);
  if (why.empty()) {
    if (auto layout = Search(profiles, std::move(by_profile), present, beside_held).take()) return *std::move(layout);
    why = "their placements overlap in every arrangement";
  }
  return std::unexpected(NoLayout{fmt::format("{} have no layout: {}", to_string(wanted), why),
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
