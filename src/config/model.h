#pragma once
// The configuration as the rest of the program sees it: one plain value with every default filled in. The file format
// is NVIDIA's `version: v1` (same keys, types and defaults); every key of ours is an addition that NVIDIA's programs
// ignore. This header holds no parsing (config/parse/parse.h) and no precedence of flags (config/resolve.h).
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/problem.h"
#include "base/time.h"
#include "base/units.h"
#include "config/guard.h"
#include "config/shares.h"

namespace tranche::config {

enum class MigStrategy { kNone, kSingle, kMixed };
enum class ListStrategy { kEnvvar, kVolumeMounts, kCdiAnnotations, kCdiCri };
enum class IdStrategy { kUuid, kIndex };
enum class AllocationPolicy { kDistributed, kPacked };
enum class DiscoveryStrategy { kAuto, kNvml, kTegra, kVfio };
enum class SharingStrategy { kNone, kTimeSlicing, kMps };

std::string_view to_string(MigStrategy);        // "none", "single", "mixed"
std::string_view to_string(ListStrategy);       // "envvar", "volume-mounts", "cdi-annotations", "cdi-cri"
std::string_view to_string(IdStrategy);         // "uuid", "index"
std::string_view to_string(AllocationPolicy);   // "distributed", "packed"
std::string_view to_string(DiscoveryStrategy);  // "auto", "nvml", "tegra", "vfio"
std::string_view to_string(SharingStrategy);    // "none", "time-slicing", "mps"

struct PluginFlags {
  bool pass_device_specs = false;
  std::vector<ListStrategy> device_list_strategy{ListStrategy::kEnvvar};
  IdStrategy device_id_strategy = IdStrategy::kUuid;
  std::string cdi_annotation_prefix = "cdi.k8s.io/";
  std::string nvidia_ctk_path = "/usr/bin/nvidia-ctk";
  std::string container_driver_root = "/driver-root";
  AllocationPolicy shared_devices_allocation_policy = AllocationPolicy::kDistributed;
  friend bool operator==(const PluginFlags&, const PluginFlags&) = default;
};

struct GfdFlags {
  bool oneshot = false;
  bool no_timestamp = false;
  Duration sleep_interval = std::chrono::seconds(60);  // Duration::max() = "infinite"
  std::string output_file = "/etc/kubernetes/node-feature-discovery/features.d/gfd";
  std::string machine_type_file = "/sys/class/dmi/id/product_name";
  friend bool operator==(const GfdFlags&, const GfdFlags&) = default;
};

struct Flags {
  MigStrategy mig_strategy = MigStrategy::kNone;
  bool fail_on_init_error = true;
  std::string mps_root;  // "" = not given; a sharing of kind MPS needs it, and resolve fills in /run/nvidia/mps
  std::string nvidia_driver_root = "/";
  std::string nvidia_dev_root;  // "" = same as nvidia_driver_root
  bool gdrcopy_enabled = false;
  bool gds_enabled = false;
  bool mofed_enabled = false;
  bool use_node_feature_api = true;
  DiscoveryStrategy device_discovery_strategy = DiscoveryStrategy::kAuto;
  PluginFlags plugin;
  GfdFlags gfd;
  friend bool operator==(const Flags&, const Flags&) = default;
};

// A device named in `sharing.*.resources[].devices`: an index ("0"), a MIG index ("0:1") or a UUID.
struct DeviceRef {
  std::string text;
  friend bool operator==(const DeviceRef&, const DeviceRef&) = default;
};
struct AllDevices {
  friend bool operator==(const AllDevices&, const AllDevices&) = default;
};
struct DeviceCount {
  std::uint32_t count = 0;
  friend bool operator==(const DeviceCount&, const DeviceCount&) = default;
};
using DeviceSelection = std::variant<AllDevices, DeviceCount, std::vector<DeviceRef>>;

// One entry of sharing.<strategy>.resources.
struct SharedResource {
  std::string name;                   // full: "nvidia.com/gpu"
  std::optional<std::string> rename;  // full: "nvidia.com/gpu.shared"; absent = advertised under `name`
  DeviceSelection devices = AllDevices{};
  std::uint32_t replicas = 1;          // 0 = as many as slot_memory gives on each GPU
  std::optional<Bytes> slot_memory{};  // ours, in place of replicas
  // Ours: "gpu%d" = a resource per GPU (%d its index), "gpu-%ggb" per size of slot, "%m" per model; "" = one for all.
  std::string names{};
  SharingStrategy strategy = SharingStrategy::kNone;  // of the section that it stands in
  ThreadsPolicy threads{};                            // of the entry, or the section's
  MemoryPolicy memory{};
  SplitPolicy split = SplitPolicy::kReject;
  std::optional<GuardMemory> guard_memory{};  // absent = Sharing::guard's
  Place place;                                // where it was written, for later Problems
  friend bool operator==(const SharedResource&, const SharedResource&) = default;
};

// What happens to a GPU's compute mode while MPS shares it. Extension: sharing.mps.computeMode.
enum class ComputeModePolicy { kExclusive, kLeave };
// What to do with an SM count known to compute wrong (data/sm-counts). Extension: sharing.mps.smRounding.
enum class SmRounding { kUp, kDown, kOff };
// By what means MPS enforces shares (mps/daemon/tier.h). `auto` is v2, the one tier that daemons are started in.
// Extension: sharing.mps.tier.
enum class TierPolicy { kAuto, kV2, kV3 };
std::string_view to_string(TierPolicy);  // "auto", "v2", "v3"
// What happens to a GPU whose means of sharing change while containers hold slots of it: it gives out nothing new and
// changes when it is free, or it changes at once and what they hold of it is lost. Extension: sharing.change.
enum class ChangePolicy { kWait, kForce };
std::string_view to_string(ChangePolicy);  // "wait", "force"
// What stands in a grant's endpoint: our relay, or a hard link to the daemon's own socket. Extension:
// sharing.mps.endpoint.
enum class EndpointPolicy { kRelay, kLink };
std::string_view to_string(ComputeModePolicy);  // "exclusive", "leave"
std::string_view to_string(EndpointPolicy);     // "relay", "link"
std::string_view to_string(SmRounding);         // "up", "down", "off"

inline constexpr Duration kStopPatienceLeast = std::chrono::milliseconds(100);
inline constexpr Duration kStopPatienceMost = std::chrono::seconds(60);

struct Sharing {
  SharingStrategy strategy = SharingStrategy::kNone;  // of the section that is in force; MPS wins over time-slicing
  // Ours, sharing.perDevice: `devices` and `rename` of entries count, and with both sections given both are in force:
  // then `resources` holds the entries of both, each with its strategy, and everything else here is of the MPS section.
  bool per_device = false;
  bool rename_by_default = false;
  bool fail_requests_greater_than_one = false;  // default false for time-slicing, true for MPS, as NVIDIA's
  bool one_time_slice = false;                  // with per_device: the same of timeSlicing beside mps
  std::vector<SharedResource> resources;        // of the section in force
  ComputeModePolicy compute_mode = ComputeModePolicy::kExclusive;
  SmRounding sm_rounding = SmRounding::kUp;
  EndpointPolicy endpoint = EndpointPolicy::kRelay;
  Guard guard;
  ThreadsPolicy threads;  // of entries that do not say
  MemoryPolicy memory;
  Reserve reserve;
  TierPolicy tier = TierPolicy::kAuto;
  ChangePolicy change = ChangePolicy::kWait;  // of the node, whatever the section in force
  std::uint32_t max_clients = 0;         // of one MPS server; 0 = what the driver is known to take (plan/ceiling.h)
  std::uint32_t processes_per_slot = 1;  // how many CUDA processes a slot must have room for
  Duration proof_every = std::chrono::minutes(10);  // a CUDA start through each pool's daemon; 0 = none
  bool mig_devices = false;                         // MPS serves MIG devices as well, which NVIDIA's programs refuse
  // How long the queued GPU work of a stopped client is given before the client is killed. Too short hurts neighbours:
  // work in flight of a client that dies kills them.
  Duration stop_patience = std::chrono::seconds(2);
  bool framework_environment = true;  // containers get variables that make frameworks keep to the share
  friend bool operator==(const Sharing&, const Sharing&) = default;
};

// Ours, `devices`: which GPUs the node works with at all. Each pattern is a UUID, a PCI address, an index or a model's
// name with `*`; what is excluded is out, and with anything included only that is in.
struct DeviceFilter {
  std::vector<DeviceRef> include;
  std::vector<DeviceRef> exclude;
  friend bool operator==(const DeviceFilter&, const DeviceFilter&) = default;
};

// Ours, `dra`: what the node offers through Dynamic Resource Allocation, beside or in place of the device plugin.
enum class DraDevices { kNone, kAll };
std::string_view to_string(DraDevices);  // "none", "all"

inline constexpr std::size_t kLongestDriverName = 63;

struct Dra {
  DraDevices devices = DraDevices::kNone;
  std::string driver_name = "gpu.tranche.io";
  friend bool operator==(const Dra&, const Dra&) = default;
};

struct Imex {
  std::vector<int> channel_ids;
  bool required = false;
  friend bool operator==(const Imex&, const Imex&) = default;
};

struct Config {
  std::string version = "v1";
  Flags flags;
  Sharing sharing;
  DeviceFilter devices;
  Dra dra;
  Imex imex;
  friend bool operator==(const Config&, const Config&) = default;
};

// By what an entry shares: its own word, or else the section's in force.
SharingStrategy strategy_of(const Config& config, const SharedResource& entry);
// failRequestsGreaterThanOne of the section that an entry stands in.
bool one_slot_per_request(const Config& config, const SharedResource& entry);
// What the guard does with tenants of an entry.
GuardMemory guard_memory_of(const Config& config, const SharedResource& entry);
// Whether an entry makes a resource of each GPU ("gpu%d"), of which one container may hold several.
bool is_individual(const SharedResource& entry);

// The sharing entry for a resource by its un-renamed name; the later of duplicates wins, as NVIDIA's. nullptr = none.
// Of entries that share the devices of a name among them (perDevice) it is the last.
const SharedResource* sharing_of(const Config& config, std::string_view resource_name);
// Its guard's policy, by the same name.
GuardMemory guard_memory_of(const Config& config, std::string_view resource_name);

}  // namespace tranche::config
