#pragma once
// A GPU model: all its properties that do not change while the simulated node runs. Plain data, because it is in the
// state file that all stand-ins map. Profiles come from data/gpus/*.yaml.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/problem.h"
#include "fixed_text.h"

namespace tranche::sim {

inline constexpr std::uint32_t kMaxGiProfiles = 18;  // the number of enum values of the newest driver
inline constexpr std::uint32_t kMaxPlacements = 8;

// A GPU instance profile of the driver library.
struct GiProfile {
  std::uint32_t enum_value;  // argument of the …ProfileInfo calls
  std::uint32_t id;          // argument of create, placements, remaining capacity
  FixedText<24> name;        // "1g.18gb+me"
  std::uint32_t slices;      // compute slices: the number before the g
  std::uint32_t max_count;
  std::uint32_t memory_mib;
  std::uint32_t sm_count;
  std::uint32_t copy_engines, decoders, encoders, jpegs, ofas;
  std::uint32_t placement_size;  // in memory slices
  std::uint32_t placement_count;
  std::uint32_t placement_starts[kMaxPlacements];
};

struct MigTraits {
  std::uint32_t memory_slices;  // 0: the model has no MIG
  std::uint32_t sms_per_slice;
  std::uint32_t ci_of_double_memory;  // CI profile id inside a 1g instance with twice the memory: 0, or 7 since Hopper
  std::uint32_t needs_reset;          // a mode change stays pending until a reset
  std::uint32_t profile_count;
  GiProfile profiles[kMaxGiProfiles];
};

struct GpuProfile {
  FixedText<32> key;    // "H200": the file's name
  FixedText<96> name;   // "NVIDIA H200"
  FixedText<16> board;  // default topology of a node with this model: "dgx-h200"
  std::uint32_t pci_device_id, pci_subsystem_id, pci_class;
  std::uint64_t memory_total, memory_reserved;
  std::uint32_t sm_count, cores_per_sm;
  std::int32_t cc_major, cc_minor;
  std::uint32_t architecture, brand;
  std::uint32_t nvlink_count, nvlink_version, nvlink_mbps;
  std::uint32_t fabric;  // 1: registers with the NVSwitch fabric
  std::uint32_t power_default_mw, power_min_mw, power_max_mw, power_idle_mw;
  std::uint32_t max_sm_mhz, max_memory_mhz;
  std::uint32_t ecc;
  FixedText<32> vbios;
  MigTraits mig;
};

// Pure. Reports every error; the profile is valid only if there is none.
GpuProfile parse_profile(std::string_view text, const std::string& source, std::vector<Problem>& problems);

// Where profiles are searched: $TRANCHE_SIM_PROFILES, "profiles" beside this program or library, and
// $TRANCHE_BUILD/standins/profiles (for tests). "" if none of them is a directory.
std::string profile_directory();
std::vector<std::string> profile_names(const std::string& directory);

}  // namespace tranche::sim
