#pragma once
// The devices that a node offers through Dynamic Resource Allocation (DRA): configuration + inventory + faults → named
// devices as values. dra/slices.h turns them into ResourceSlice objects; preparing a claim looks its devices up here.
// Not here: who holds a device. Pure.
//
// `dra.devices: none` yields no device. With `all`, each GPU has, and with a list, each GPU of the list
//   gpu-N          kWhole    for one claim at a time
//   gpu-N-shared   kShared   for many claims, each with a part of memory and SMs
//   gpu-N-monitor  kMonitor  for claims with admin access: it uses no capacity of the GPU
// where N is the driver's index. A GPU in MIG mode has one device for each of its MIG devices instead, as they are:
//   gpu-N-mig-<profile>-<GPU instance>-<compute instance>   kMig   for one claim at a time
// or, with `dra.partitions: onDemand`, one for each instance that it can have:
//   gpu-N-mig-<profile>-<profile's number>-<first memory slice>
// so no GPU is offered both as a whole and by its instances. The GPU's UUID is the identity: after a reboot the index
// can name a different GPU. NVIDIA's driver writes the minor number for N, which is the index on most nodes; here all
// names of a node have the index, for a name with each could be one of two GPUs.
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/enum_names.h"
#include "base/units.h"
#include "config/model.h"
#include "gpu/health/healthchecks.h"
#include "gpu/inventory/inventory.h"
#include "gpu/mig/state.h"

namespace tranche::dra {

// --- partitions on demand -----------------------------------------------------------------------------------------

// MIG instances that do not exist until a claim gets them (`dra.partitions: onDemand`): for a GPU in MIG mode one
// device for each profile and placement of its driver, all drawing on the counters of the GPU, so that the scheduler
// grants only what fits together. Which device is made and destroyed when is node/dra/claims.h.
//
// An instance that this program did not make takes its part from the counters of the GPU and leaves the devices as they
// are: the scheduler charges an allocated device only while it is published, so a device is never left out because an
// instance is in its place.

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

// --- devices ------------------------------------------------------------------------------------------------------

enum class Kind { kWhole, kShared, kMonitor, kMig };
ENUM_NAMES(Kind::kMig, "gpu", "shared", "monitor", "mig")
// Whether a claim has an MPS endpoint for such a device. A MIG device is separated from its neighbours by hardware.
constexpr bool has_endpoint(Kind kind) {
  return kind == Kind::kWhole || kind == Kind::kShared;
}

// What a shared device's memory can be divided into. MPS limits are whole MiB.
inline constexpr Bytes kMemoryStep = mib(1);
inline constexpr Bytes kMemoryLeast = mib(256);
inline constexpr Bytes kMemoryDefault = gib(1);  // of a claim that names no memory; less on a small GPU
inline constexpr std::uint32_t kCoresAll = 100;  // `cores` counts percent of a GPU's SMs

struct Device {
  std::string name;  // "gpu-0-shared": unique on the node, a DNS label
  Kind kind = Kind::kWhole;
  std::string gpu_uuid;     // of a MIG device: its own UUID
  std::uint32_t index = 0;  // the driver's, of the GPU
  // That claims can allocate: of a whole device all memory, of a shared one all but the reserve (sharing.mps.reserve).
  // 0 = the driver does not report it.
  Bytes memory{};
  std::uint32_t sms = 0;          // of the GPU; 0 = unknown
  std::uint32_t cores_least = 1;  // kShared: percent that the driver gives at least, also what a claim gets by default
  gpu::ComputeCapability compute_capability{};
  std::string product;      // "NVIDIA H200"
  std::string pci_bus_id;   // as NVML writes it: "00000000:00:06.0"
  std::string pcie_root{};  // "pci0000:00"; "" = unknown
  std::optional<std::uint32_t> numa_node{};
  std::string driver_version;             // "580.159.04"
  int cuda_driver_version = 0;            // 1000·major + 10·minor; 0 = unknown
  std::optional<gpu::Unhealthy> fault{};  // accepts no new claims while set
  // kMig only.
  std::string parent_uuid{};               // the GPU's
  std::string profile{};                   // "1g.18gb+me"
  std::array<std::uint32_t, 5> engines{};  // copy, decoder, encoder, jpeg, ofa
  // It is made when a claim is prepared; gpu_uuid is the GPU's.
  std::optional<Partition> partition{};
  friend bool operator==(const Device&, const Device&) = default;
};

struct Devices {
  std::vector<Device> list;        // by GPU index; of one GPU shared, whole, monitor, or its MIG devices
  std::vector<std::string> notes;  // what is left out, and why: one sentence each
  friend bool operator==(const Devices&, const Devices&) = default;
};

// `inventory`: of the GPUs that the node uses (plan::keep_gpus). `faults`: by UUID of a GPU or MIG device
// (gpu::FaultLedger::faults()). MIG devices that were made for claims are never offered as what is there.
Devices devices_of(const config::Config& config, const gpu::Inventory& inventory,
                   const std::map<std::string, gpu::Unhealthy>& faults = {}, const Partitionable& partitionable = {});

// Whether containers of this configuration can use a MIG device: the nodes that open it are known, or not needed.
bool is_usable(const config::Config& config, const gpu::MigDevice& mig);
// Whether the configuration has this GPU partitioned on demand, once it is in MIG mode.
bool is_for_partitions(const config::Config& config, const gpu::Gpu& gpu);
bool any_for_partitions(const config::Config& config, const gpu::Inventory& inventory);  // that is in MIG mode

const Device* find_device(const std::vector<Device>& devices, std::string_view name);  // nullptr = not there

}  // namespace tranche::dra
