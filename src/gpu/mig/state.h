#pragma once
// What MIG can cut out of a GPU and what a GPU is cut into, as the driver reports it by GPU instance (including those
// without a compute instance), with who holds the parts. gpu/driver/mig reads it from the driver;
// gpu/models/models.h makes it for GPUs that are not here. Pure values.
//
// Configurations ask for kinds of instances by name: "[<c>c.]<g>g.<n>gb[+attribute…]", where c < g asks for a compute
// instance that is a part of its GPU instance. The name is made from memory sizes, so it differs between boards and
// drivers; the driver's calls accept the number `id`.
#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/enum_names.h"
#include "base/units.h"
#include "gpu/inventory/inventory.h"

namespace tranche::mig {

// Of a GPU instance in memory slices of the GPU; of a compute instance in compute slices of its GPU instance.
struct Placement {
  std::uint32_t start = 0;
  std::uint32_t size = 0;
  friend auto operator<=>(const Placement&, const Placement&) = default;
};
std::string to_string(const Placement& placement);  // "slices 4-7", "slice 6"
constexpr bool overlap(const Placement& a, const Placement& b) {
  return a.start < b.start + b.size && b.start < a.start + a.size;
}

enum Engine : std::size_t { kCopyEngines, kDecoders, kEncoders, kJpegEngines, kOpticalFlowEngines, kEngineKinds };

struct Profile {
  std::uint32_t id = 0;      // argument of the driver's calls: 19, 14, 9 …
  std::string name;          // "1g.18gb+me"
  std::uint32_t slices = 0;  // compute slices
  std::uint64_t memory_mib = 0;
  std::uint32_t sm_count = 0;
  std::uint32_t at_most = 0;  // of this kind alone
  std::array<std::uint32_t, kEngineKinds> engines{};
  std::vector<Placement> placements;      // every legal one, by start; not only the free ones
  std::optional<std::uint32_t> number{};  // in the driver's enumeration; absent = the driver does not list it
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
// "1g.10gb"; "profile 19" where the GPU's profiles have no such number.
std::string profile_name(const std::vector<Profile>& profiles, std::uint32_t id);
// "1c.3g.40gb" of a compute instance of one slice; the profile's name of one that fills its GPU instance.
std::string compute_name(const std::vector<Profile>& profiles, std::uint32_t id, std::uint32_t slices);

// Where compute instances of `slices` can start in a GPU instance of `of` compute slices, and how long they are there.
std::vector<Placement> compute_placements(std::uint32_t of, std::uint32_t slices);

// A process or pod for whose sake an instance must stay.
struct Holder {
  std::string who;                                  // "pod default/trainer (container main)", "process 4711"
  std::uint32_t pid = 0;                            // 0 = not known
  std::string pod_namespace{}, pod{}, container{};  // "" = not a pod, or kubelet has not listed the grant yet
  std::string uid{};                                // of the pod; "" = not known
  friend bool operator==(const Holder&, const Holder&) = default;
};
Holder pod_holder(const std::string& pod_namespace, const std::string& pod, const std::string& container);

std::string list_of(const std::vector<Holder>& holders);  // "pod a/b (container c), process 5"; never ""

struct ComputeInstance {
  std::uint32_t id = 0;
  Placement placement;       // in compute slices of the GPU instance
  std::string uuid{};        // "MIG-…"; "" = the driver lists no MIG device for it
  bool held = false;         // by a holder, named or not
  std::uint32_t number = 0;  // of its profile in the driver's enumeration
  friend bool operator==(const ComputeInstance&, const ComputeInstance&) = default;
};

struct GpuInstance {
  std::uint32_t id = 0;
  std::uint32_t profile_id = 0;
  Placement placement;
  std::vector<ComputeInstance> compute{};
  bool held = false;  // the whole instance must stay; with held compute instances it must as well
  std::vector<Holder> holders{};
  bool busy() const;
  bool is_at(std::uint32_t profile, const Placement& place) const {
    return profile_id == profile && placement == place;
  }
  friend bool operator==(const GpuInstance&, const GpuInstance&) = default;
};
// The one with this profile at this place; the end if there is none.
auto find_at(auto& instances, std::uint32_t profile, const Placement& place) {
  return std::ranges::find_if(instances, [&](const GpuInstance& one) { return one.is_at(profile, place); });
}

// A GPU instance with one compute instance that fills it, by its place on the GPU: the same after it was made again.
struct WholeInstance {
  std::uint32_t profile_id = 0;  // argument of the driver's calls
  std::uint32_t slices = 0;      // compute slices
  Placement place;               // in memory slices of the GPU
  friend bool operator==(const WholeInstance&, const WholeInstance&) = default;
};

// Ampere: a change of the mode takes effect when the GPU is reset, or at the next start of the machine. Later GPUs: at
// once when no process holds the GPU.
constexpr bool mode_needs_reset(gpu::ComputeCapability capability) {
  return capability.major < 9;
}

struct GpuState {
  std::uint32_t index = 0;
  std::string uuid{};
  std::string name{};                  // "NVIDIA H200"
  std::uint32_t pci_device_id = 0;     // 0xDDDDVVVV, as NVML packs it; 0 = not known
  std::uint32_t pci_subsystem_id = 0;  // 0xSSSSVVVV; 0 = not known
  gpu::ComputeCapability compute_capability{};
  Bytes memory{};
  bool capable = false;
  bool enabled = false;
  bool pending = false;                  // the mode after a reset; differs from `enabled` while one is needed
  std::vector<Profile> profiles{};       // the driver's, else those of gpu/models/models.h; empty = not known
  std::vector<GpuInstance> instances{};  // by placement
  std::vector<Holder> holders{};         // of the whole GPU, of no instance
  friend bool operator==(const GpuState&, const GpuState&) = default;
};

// One call of the driver that changes what a GPU is cut into.
struct Step {
  enum class What {
    kDestroyCompute,  // compute instance `compute` of GPU instance `instance`
    kDestroyInstance,
    kModeOn,
    kModeOff,
    kReset,           // the GPU, with no process on it; or the machine starts again
    kCreateInstance,  // `profile_id` at `placement`
    kCreateCompute,   // of compute_placement.size slices; where they lie, the driver chooses
  };
  What what = What::kDestroyInstance;
  std::optional<std::uint32_t> instance{};  // the driver's number of a GPU instance that exists
  std::optional<std::uint32_t> compute{};   // and of a compute instance in it
  std::uint32_t profile_id = 0;             // of the GPU instance
  std::string profile{};                    // "3g.40gb"; of a compute instance "1c.3g.40gb"
  Placement placement{};                    // of the GPU instance
  Placement compute_placement{};            // kCreateCompute, kDestroyCompute
  std::string why{};
  friend bool operator==(const Step&, const Step&) = default;
};
ENUM_NAMES(Step::What::kCreateCompute, "destroyComputeInstance", "destroyGpuInstance", "modeOn", "modeOff", "reset",
           "createGpuInstance", "createComputeInstance")
std::string to_string(const Step& step);  // "create 3g.40gb at slices 4-7"
// Takes something away that a program may use.
bool destroys(const Step& step);

// Who uses a device beside the processes that the driver lists, by its UUID: a MIG device's, or the GPU's own.
using Users = std::function<std::vector<Holder>(const std::string& uuid)>;
void add_users(GpuState& gpu, const Users& users);

}  // namespace tranche::mig
