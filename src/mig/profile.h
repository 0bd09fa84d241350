#pragma once
// A kind of GPU instance that MIG can cut out of a GPU, and the names by which configurations ask for it:
// "[<c>c.]<g>g.<n>gb[+attribute…]", where c < g asks for a compute instance that is a part of its GPU instance. The
// name is made from memory sizes, so it differs between boards and drivers; the number `id` is what the driver's calls
// take. Pure values.
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tranche::mig {

// Of a GPU instance in memory slices of the GPU; of a compute instance in compute slices of its GPU instance.
struct Placement {
  std::uint32_t start = 0;
  std::uint32_t size = 0;
  friend auto operator<=>(const Placement&, const Placement&) = default;
};
std::string to_string(const Placement& placement);  // "slices 4-7", "slice 6"
bool overlap(const Placement& a, const Placement& b);

enum Engine : std::size_t { kCopyEngines, kDecoders, kEncoders, kJpegEngines, kOpticalFlowEngines, kEngineKinds };

struct Profile {
  std::uint32_t id = 0;      // argument of the driver's calls: 19, 14, 9 …
  std::string name;          // "1g.18gb+me"
  std::uint32_t slices = 0;  // compute slices
  std::uint64_t memory_mib = 0;
  std::uint32_t sm_count = 0;
  std::uint32_t at_most = 0;  // of this kind alone
  std::array<std::uint32_t, kEngineKinds> engines{};
  std::vector<Placement> placements;  // every legal one, by start
  friend bool operator==(const Profile&, const Profile&) = default;
};

// A name taken apart. It need not be a profile of any GPU.
struct ProfileName {
  std::uint32_t compute_slices = 0;  // = slices where the name has no "<c>c."
  std::uint32_t slices = 0;
  std::uint32_t gigabytes = 0;
  std::string attributes;  // "", "+me", "+me.all", "+gfx", "-me", in the order written

  bool whole() const { return compute_slices == slices; }  // one compute instance that is the whole GPU instance
  std::string gpu_instance() const;                        // "3g.20gb": without the part of the compute instance
  friend auto operator<=>(const ProfileName&, const ProfileName&) = default;
};
std::optional<ProfileName> parse_profile_name(std::string_view text);
std::string to_string(const ProfileName& name);

// Of the GPU's own profiles; nullptr = it has none of that name or number.
const Profile* find_profile(const std::vector<Profile>& profiles, std::string_view gpu_instance_name);
const Profile* find_profile(const std::vector<Profile>& profiles, std::uint32_t id);

std::string list_of(const std::vector<Profile>& profiles);  // "1g.5gb, 1g.5gb+me, …"
// The profile that a configuration means: of that name, else the only one of as many slices and the same attributes
// whose memory differs by one gigabyte, as the names of some drivers do (3g.39gb for 3g.40gb). nullptr = none.
const Profile* resolve_profile(const std::vector<Profile>& profiles, const ProfileName& name);

// Where compute instances of `slices` can start in a GPU instance of `of` compute slices, and how long they are there.
std::vector<Placement> compute_placements(std::uint32_t of, std::uint32_t slices);

}  // namespace tranche::mig
