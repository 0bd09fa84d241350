#pragma once
// What a GPU is or is to be cut into; the next driver call on the way there; and the plan of a configuration: what
// stays, what goes, what is made and where, whether the mode changes and what that needs, and which holders are in the
// way. Every call is derived from what the driver shows at that moment, so a program that was killed between any two
// calls goes on where it was. The plan that is printed is the same function run on a copy, so it is what happens. Pure.
//
// The search for the places of wanted instances is exact. Of all legal layouts of the wanted set it chooses the one
// that destroys the fewest held instances, then the fewest instances at all, then the fewest compute instances, then
// creates the fewest, then leaves the most room for further instances; ties go to the lowest placements. A GPU has at
// most a few thousand layouts, so nothing is guessed.
#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <vector>

#include "base/problem.h"
#include "gpu/mig/state.h"
#include "mig/configuration.h"

namespace tranche::mig {

// ---- what a GPU is to be cut into: a GpuState, of which the mode and the places of the instances count

// The number of an instance that does not exist yet.
inline constexpr std::uint32_t kNotMadeYet = ~std::uint32_t{0};

GpuState with_mode(GpuState gpu, bool on);     // what the GPU has, as far as the mode allows
std::string layout_text(const GpuState& gpu);  // "MIG off", "3g.20gb at 0, 3g.20gb at 4"

struct Cost {
  std::uint32_t held_destroyed = 0;  // held GPU instances, and held compute instances in ones that stay
  std::uint32_t instances_destroyed = 0;
  std::uint32_t compute_destroyed = 0;  // in GPU instances that stay
  std::uint32_t instances_created = 0;
  std::uint32_t compute_created = 0;  // in GPU instances that stay
  friend auto operator<=>(const Cost&, const Cost&) = default;
};

struct ChosenLayout {
  std::vector<GpuInstance> instances{};  // by placement
  Cost cost{};
};

// A set without a layout.
struct NoLayout {
  std::string what;    // the reason, a sentence
  std::string remedy;  // a set that is possible instead
};

// The best layout of `wanted` for a GPU of such profiles that has `present` now. beside_held: of those in which every
// held instance of `present` has room and stays.
std::expected<ChosenLayout, NoLayout> choose_layout(const std::vector<Profile>& profiles, const Instances& wanted,
                                                    const std::vector<GpuInstance>& present, bool beside_held = false);

// The largest part of `wanted` that has a layout in which every held instance of `present` stays: as many compute
// slices as possible. Empty = not even a part.
Instances largest_beside(const std::vector<Profile>& profiles, const Instances& wanted,
                         const std::vector<GpuInstance>& present);

// Every placement of `profile` that is free beside `present`.
std::vector<Placement> free_placements(const Profile& profile, const std::vector<GpuInstance>& present);
// How many more instances of `profile` have room beside `present`.
std::uint32_t room_for(const std::vector<Profile>& profiles, const Profile& profile,
                       const std::vector<GpuInstance>& present);

// ---- the way there

// Nothing: the GPU is as wanted. The mode goes on first and off last; what goes comes before what is made, by
// placement.
std::optional<Step> next_step(const GpuState& now, const GpuState& wanted);

// What holds the change up until it ends.
struct Blocker {
  std::string what;  // "3g.40gb at slices 4-7", "the whole GPU"
  std::vector<Holder> holders;
  friend bool operator==(const Blocker&, const Blocker&) = default;
};

// Of one GPU: every step from what it is cut into to a layout, if the driver does what it is asked to.
struct GpuPlan {
  GpuState now;
  bool matched = false;  // an entry names this GPU; otherwise it stays as it is
  bool as_wanted = false;
  std::vector<Step> steps{};
  std::vector<Blocker> blockers{};  // none = the steps can be taken now
  GpuState after{};                 // where they lead: the layout that is wanted
  std::string mode_why{};           // of a mode change and its reset, or ""
  std::string fits_beside{};        // with blockers: how much of the wanted set has room beside the held instances

  bool mode_changes() const { return now.enabled != after.enabled; }
  bool needs_reset() const;
  std::vector<GpuInstance> goes() const;    // present instances that are not in `after`
  std::vector<std::string> leaves() const;  // UUIDs of the MIG devices that are not
};
GpuPlan plan_to(const GpuState& now, const GpuState& target);
GpuPlan left_alone(const GpuState& now);  // neither matched nor as wanted

struct Plan {
  std::string configuration;
  std::vector<GpuPlan> gpus;  // by index
  std::vector<Problem>
      problems;  // a profile that the GPU does not have, a set without a layout; warnings: an index without a GPU
  bool as_wanted() const;
  bool possible() const;  // no error among the problems
  bool blocked() const;
  bool needs_reset() const;
};

// mode_only: leaves instances as far as the mode allows.
Plan make_plan(const Configuration& configuration, const std::vector<GpuState>& gpus, bool mode_only = false);

// Whether the node is as configured, as mig-parted asserts it: every GPU named, modes and names equal. Empty = it is;
// otherwise one sentence a difference.
std::vector<std::string> differences(const Configuration& configuration, const std::vector<GpuState>& gpus,
                                     bool mode_only);

// ---- what people and programs see of a plan, and of what GPUs can be cut into (`tranche mig profiles`)

std::string plan_text(const Plan& plan, bool colour, int width);
std::string plan_json(const Plan& plan);

std::string why_no_profiles(const GpuState& gpu);  // "" = it has some
// GPUs with the same layout share a section.
std::string profiles_text(const std::vector<GpuState>& gpus, bool colour);
std::string profiles_json(const std::vector<GpuState>& gpus);

}  // namespace tranche::mig
