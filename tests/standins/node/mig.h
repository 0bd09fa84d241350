#pragma once
// Partitions a GPU into MIG instances by the driver's rules: placement grids, counts, ids, instance names. Pure:
// changes only the given GpuState.
#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <vector>

#include "node_state.h"

namespace tranche::sim {

enum class MigFault { kNotMigMode, kNoSuchProfile, kNoRoom, kInUse, kBadPlacement };
std::string to_string(MigFault fault);

// Compute-instance profiles inside a GPU instance.
struct CiProfile {
  std::uint32_t id = 0;
  std::uint32_t slices = 0;
  std::uint32_t max_count = 0;
  std::uint32_t sm_count = 0;
  std::vector<std::uint32_t> starts;
};

const GiProfile* gi_profile_by_enum(const GpuProfile& profile, std::uint32_t enum_value);
const GiProfile* gi_profile_by_id(const GpuProfile& profile, std::uint32_t id);
const GiProfile* gi_profile_by_name(const GpuProfile& profile, std::string_view name);
std::vector<CiProfile> ci_profiles(const MigTraits& mig, const GiProfile& gi);
// "1g.18gb" or, for a part of an instance, "1c.3g.71gb".
std::string mig_name(const GiProfile& gi, std::uint32_t ci_slices);

// How many more instances of this profile fit now.
std::uint32_t remaining_gis(const GpuState& gpu, const GiProfile& profile);
std::uint32_t remaining_cis(const GpuState& gpu, const GpuInstanceState& gi, const CiProfile& profile);

// start: the exact placement; absent = the first that fits. Returns the slot in GpuState::instances.
std::expected<std::size_t, MigFault> create_gi(GpuState& gpu, std::uint32_t profile_id,
                                               std::optional<std::uint32_t> start);
std::expected<std::size_t, MigFault> create_ci(GpuState& gpu, std::size_t gi_slot, std::uint32_t profile_id,
                                               std::optional<std::uint32_t> start);
std::expected<void, MigFault> destroy_gi(GpuState& gpu, std::size_t gi_slot);

// The layout for a list of names: mode on, everything repartitioned, one whole compute instance in each. Large profiles
// first, as the driver requires. The error names the profile that did not fit or does not exist.
std::expected<void, std::string> apply_mig_layout(GpuState& gpu, const std::vector<std::string>& profile_names);

// A MIG device is a compute instance. Ordered by index, which may have gaps.
struct MigDevice {
  std::uint32_t index = 0;
  std::uint32_t gpu_instance = 0;
  std::uint32_t compute_instance = 0;
};
std::vector<MigDevice> mig_devices(const GpuState& gpu);
const GpuInstanceState* find_gi(const GpuState& gpu, std::uint32_t id);
const ComputeInstanceState* find_ci(const GpuInstanceState& gi, std::uint32_t id);

}  // namespace tranche::sim
