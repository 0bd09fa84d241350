#pragma once
// MIG instances that do not exist until a claim gets them (`dra.partitions: onDemand`): for a GPU in MIG mode one
// device for each profile and placement of its driver, all drawing on the counters of the GPU, so that the scheduler
// grants only what fits together. Which device is made and destroyed when is node/dra/claims.h. Pure.
//
// An instance that this program did not make takes its part from the counters of the GPU and leaves the devices as they
// are: the scheduler charges an allocated device only while it is published, so a device is never left out because an
// instance is in its place.
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "gpu/mig/state.h"

namespace tranche::dra {

// More memory slices than any GPU has, and few enough for the 32 counters of a set.
inline constexpr std::uint32_t kMostMemorySlices = 24;

// What an instance has of a GPU, or a GPU in all, by the published name; "memory" in MiB.
using Counters = std::map<std::string, std::uint64_t>;

struct Partition {
  mig::WholeInstance instance;
  Counters takes;
  Counters of_gpu;  // what is left for partitions: without what instances of other programs have
  friend bool operator==(const Partition&, const Partition&) = default;
};

struct PartitionableGpu {
  std::vector<mig::Profile> profiles;       // of its driver
  std::vector<mig::WholeInstance> foreign;  // present instances that were not made for claims
  friend bool operator==(const PartitionableGpu&, const PartitionableGpu&) = default;
};

// What the node has for partitions on demand.
struct Partitionable {
  bool known = true;                             // false: the driver, or the node's label, is not read yet
  std::string why_not;                           // why no GPU of the node is partitioned on demand; "" = they are
  std::map<std::string, PartitionableGpu> gpus;  // by UUID, those in MIG mode
  std::set<std::string> made;                    // UUIDs of MIG devices that were made for claims
  std::set<std::string> making;                  // UUIDs of GPUs where one is being made
  friend bool operator==(const Partitionable&, const Partitionable&) = default;
};

// The best order for "first fit": the smallest profile first, and of its placements the one that overlaps the
// fewest others. Placements outside the first kMostMemorySlices are left out.
struct PlacedProfile {
  const mig::Profile* profile = nullptr;  // of the GPU that was given
  Partition partition;
};
std::vector<PlacedProfile> partitions_of(const PartitionableGpu& gpu);
std::vector<PlacedProfile> partitions_of(PartitionableGpu&& gpu) = delete;

}  // namespace tranche::dra
