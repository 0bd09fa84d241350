#pragma once
// What a GPU is or is to be cut into, and the exact search for the places of wanted instances. Of all legal layouts of
// the wanted set it chooses the one that destroys the fewest held instances, then the fewest instances at all, then the
// fewest compute instances, then creates the fewest, then leaves the most room for further instances; ties go to the
// lowest placements. A GPU has at most a few thousand layouts, so nothing is guessed. Pure.
#include <cstdint>
#include <expected>
#include <string>
#include <vector>

#include "gpu/mig/state.h"
#include "mig/configuration.h"

namespace tranche::mig {

// A GPU instance.
struct Part {
  std::uint32_t profile_id = 0;
  std::string profile{};  // its name, for messages
  Placement placement;
  std::vector<Placement> compute{};  // each one's placement in compute slices, by start
  friend bool operator==(const Part&, const Part&) = default;
};

struct Layout {
  bool enabled = false;
  std::vector<Part> parts{};  // by placement
  friend bool operator==(const Layout&, const Layout&) = default;
};
Layout layout_of(const GpuState& gpu);
Layout with_mode(const GpuState& gpu, bool on);  // what the GPU has, as far as the mode allows
std::string to_string(const Layout& layout);     // "MIG off", "3g.20gb at 0, 3g.20gb at 4"

struct Cost {
  std::uint32_t held_destroyed = 0;  // held GPU instances, and held compute instances in ones that stay
  std::uint32_t instances_destroyed = 0;
  std::uint32_t compute_destroyed = 0;  // in GPU instances that stay
  std::uint32_t instances_created = 0;
  std::uint32_t compute_created = 0;  // in GPU instances that stay
  friend auto operator<=>(const Cost&, const Cost&) = default;
};

struct ChosenLayout {
  Layout layout;
  Cost cost;
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

}  // namespace tranche::mig
