#pragma once
// The configuration as one plain value with all defaults filled in. The file format is NVIDIA's `version: v1` (same
// keys, types and defaults); all other keys are extensions that NVIDIA's programs ignore. Parsing is in
// config/parse/parse.h, the precedence of flags in config/resolve.h.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/enum_names.h"
#include "base/problem.h"
#include "base/time.h"
#include "base/units.h"

namespace tranche::config {

enum class MigStrategy { kNone, kSingle, kMixed };
enum class ListStrategy { kEnvvar, kVolumeMounts, kCdiAnnotations, kCdiCri };
enum class IdStrategy { kUuid, kIndex };
enum class AllocationPolicy { kDistributed, kPacked };
enum class DiscoveryStrategy { kAuto, kNvml, kTegra, kVfio };
enum class SharingStrategy { kNone, kTimeSlicing, kMps };

ENUM_NAMES(MigStrategy::kMixed, "none", "single", "mixed")
ENUM_NAMES(ListStrategy::kCdiCri, "envvar", "volume-mounts", "cdi-annotations", "cdi-cri")
ENUM_NAMES(IdStrategy::kIndex, "uuid", "index")
ENUM_NAMES(AllocationPolicy::kPacked, "distributed", "packed")
ENUM_NAMES(DiscoveryStrategy::kVfio, "auto", "nvml", "tegra", "vfio")
ENUM_NAMES(SharingStrategy::kMps, "none", "time-slicing", "mps")

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
  std::string mps_root;  // "" = not given; MPS sharing needs it, and resolve fills in /run/nvidia/mps
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

// How the shares of an MPS resource are divided, an extension: in `sharing.mps` for all its resources, and per entry.
// plan/shares.h computes the resulting limits on a GPU.

// How many of a GPU's SMs the slots of a grant may use, of `slots` in all.
struct ThreadsPolicy {
  enum class Kind {
    kEqual,   // held / slots, NVIDIA's
    kFactor,  // that × factor: limits may add up to more than the GPU
    kOpen,    // all of them
    kTenant,  // like kEqual; the container's own variable applies below that, and is not overwritten
    kSms,     // an exact number per slot
  };
  Kind kind = Kind::kEqual;
  std::uint32_t factor_hundredths = 100;  // kFactor: 200 = twice
  std::uint32_t sms = 0;                  // kSms: of one slot
  friend bool operator==(const ThreadsPolicy&, const ThreadsPolicy&) = default;
};

// The same for its memory.
struct MemoryPolicy {
  enum class Kind { kEqual, kFactor, kOpen, kTenant, kSize };
  Kind kind = Kind::kEqual;
  std::uint32_t factor_hundredths = 100;
  Bytes size{};  // kSize: of one slot
  friend bool operator==(const MemoryPolicy&, const MemoryPolicy&) = default;
};

// Memory of a GPU to reserve for the driver and the MPS server before it is divided. NVIDIA's plugin reserves none.
struct Reserve {
  enum class Kind { kNone, kAuto, kSize };  // kAuto: the measured amount, plan/shares.h
  Kind kind = Kind::kNone;
  Bytes size{};
  friend bool operator==(const Reserve&, const Reserve&) = default;
};

// The action if kubelet allocates slots of several GPUs to one container.
enum class SplitPolicy {
  kReject,  // Allocate fails, with a sentence that names the GPUs
  kSpan,    // the GPUs of the resource are one pool, and the grant has a limit on each
};
ENUM_NAMES(ThreadsPolicy::Kind::kSms, "equal", "factor", "open", "tenant", "sms")
ENUM_NAMES(MemoryPolicy::Kind::kSize, "equal", "factor", "open", "tenant", "size")
ENUM_NAMES(Reserve::Kind::kSize, "none", "auto", "size")
ENUM_NAMES(SplitPolicy::kSpan, "reject", "span")
std::string to_string(const ThreadsPolicy&);  // "equal", "factor 2", "open", "tenant", "sms 16": for people
std::string to_string(const MemoryPolicy&);   // "equal", "factor 1.5", "open", "tenant", "4Gi"
std::string to_string(const Reserve&);        // "none", "auto", "600Mi"

// Extension: `sharing.mps.guard` and, per resource, `guard` of an entry (docs/internals/guard.md).

// The action if the processes of a grant hold more memory on a device than its limit.
enum class GuardMemory { kObserve, kTerminateNewest, kTerminateAll };
// The action on processes on a shared GPU that are not MPS clients.
enum class GuardForeignProcesses { kObserve, kTerminate };
ENUM_NAMES(GuardMemory::kTerminateAll, "observe", "terminate-newest", "terminate-all")
ENUM_NAMES(GuardForeignProcesses::kTerminate, "observe", "terminate")

struct Guard {
  Duration interval = std::chrono::milliseconds(100);
  GuardMemory memory = GuardMemory::kTerminateNewest;
  GuardForeignProcesses foreign_processes = GuardForeignProcesses::kObserve;
  friend bool operator==(const Guard&, const Guard&) = default;
};

// One entry of sharing.<strategy>.resources.
struct SharedResource {
  std::string name;                   // full: "nvidia.com/gpu"
  std::optional<std::string> rename;  // full: "nvidia.com/gpu.shared"; absent = advertised under `name`
  DeviceSelection devices = AllDevices{};
  std::uint32_t replicas = 1;          // 0 = as many as slot_memory gives on each GPU
  std::optional<Bytes> slot_memory{};  // an extension, instead of replicas
  // Extension: "gpu%d" = a resource per GPU (%d its index), "gpu-%ggb" per slot size, "%m" per model; "" = one for all.
  std::string names{};
  SharingStrategy strategy = SharingStrategy::kNone;  // of its section
  ThreadsPolicy threads{};                            // of the entry, or the section's
  MemoryPolicy memory{};
  SplitPolicy split = SplitPolicy::kReject;
  std::optional<GuardMemory> guard_memory{};  // absent = Sharing::guard's
  Place place;                                // for later Problems
  friend bool operator==(const SharedResource&, const SharedResource&) = default;
};

// How MPS sharing changes a GPU's compute mode. Extension: sharing.mps.computeMode.
enum class ComputeModePolicy { kExclusive, kLeave };
// How to handle an SM count with known wrong results (data/sm-counts). Extension: sharing.mps.smRounding.
enum class SmRounding { kUp, kDown, kOff };
// The socket in a grant's endpoint: Tranche's relay, or a hard link to the daemon's own socket. Extension:
// sharing.mps.endpoint.
enum class EndpointPolicy { kRelay, kLink };
ENUM_NAMES(ComputeModePolicy::kLeave, "exclusive", "leave")
ENUM_NAMES(SmRounding::kOff, "up", "down", "off")
ENUM_NAMES(EndpointPolicy::kLink, "relay", "link")

struct Sharing {
  SharingStrategy strategy = SharingStrategy::kNone;  // of the section in effect; MPS wins over time-slicing
  // Extension sharing.perDevice: `devices` and `rename` of entries apply, and if both sections are given, both are in
  // effect: `resources` then holds the entries of both, each with its strategy, and all other members are of the MPS
  // section.
  bool per_device = false;
  bool rename_by_default = false;
  bool fail_requests_greater_than_one = false;  // default false for time-slicing, true for MPS, as NVIDIA's
  bool one_time_slice = false;                  // with per_device: the setting of timeSlicing beside mps
  std::vector<SharedResource> resources;        // of the section in effect
  ComputeModePolicy compute_mode = ComputeModePolicy::kExclusive;
  SmRounding sm_rounding = SmRounding::kUp;
  EndpointPolicy endpoint = EndpointPolicy::kRelay;
  Guard guard;
  ThreadsPolicy threads;  // default of entries
  MemoryPolicy memory;
  Reserve reserve;
  std::uint32_t max_clients = 0;         // per MPS server; 0 = the driver's known maximum (plan/plan_steps.h)
  std::uint32_t processes_per_slot = 1;  // how many CUDA processes a slot must support
  Duration proof_every =
      std::chrono::minutes(10);  // interval of a test CUDA start through each pool's daemon; 0 = none
  bool mig_devices = false;      // MPS also serves MIG devices, which NVIDIA's programs refuse
  // How long to wait for the queued GPU work of a stopped client before it is killed. Too short a wait can crash other
  // tenants: a client that dies with work in flight takes them down.
  Duration stop_patience = std::chrono::seconds(2);
  bool framework_environment = true;  // set variables in containers that make frameworks respect the share
  friend bool operator==(const Sharing&, const Sharing&) = default;
};

// Extension `devices`: which GPUs the node uses at all. A pattern is a UUID, a PCI address, an index or a model's name
// with `*`. Excluded GPUs are never used; if any pattern is included, only matching GPUs are.
struct DeviceFilter {
  std::vector<DeviceRef> include;
  std::vector<DeviceRef> exclude;
  friend bool operator==(const DeviceFilter&, const DeviceFilter&) = default;
};

// Extension `dra`: what the node offers through Dynamic Resource Allocation, beside or instead of the device plugin.
enum class DraDevices { kNone, kAll, kListed };  // a list has no word
ENUM_NAMES(DraDevices::kAll, "none", "all")

// What a GPU in MIG mode offers to claims: its present MIG devices, or every instance that it can have, made for a
// claim and destroyed after it.
enum class DraPartitions { kStatic, kOnDemand };
ENUM_NAMES(DraPartitions::kOnDemand, "static", "onDemand")

struct Dra {
  DraDevices devices = DraDevices::kNone;
  std::vector<DeviceRef> listed = {};  // patterns as in DeviceFilter; with kListed, not empty
  std::string driver_name = "gpu.tranche.io";
  SplitPolicy split = SplitPolicy::kReject;  // of requests with devices of several GPUs
  DraPartitions partitions = DraPartitions::kStatic;
  friend bool operator==(const Dra&, const Dra&) = default;
};

struct Imex {
  bool channel = false;  // channelIDs: [0], the only one that NVIDIA's programs accept
  bool required = false;
  friend bool operator==(const Imex&, const Imex&) = default;
};

inline constexpr const char* kImexChannelNode = "/dev/nvidia-caps-imex-channels/channel0";

// Settings of the device plugin without a key in the file.
struct PluginRun {
  std::string kubelet_socket = "/var/lib/kubelet/device-plugins/kubelet.sock";  // "" = do not register
  std::vector<std::string> cdi_feature_flags;
  std::vector<std::string> cdi_disable_hooks;
  friend bool operator==(const PluginRun&, const PluginRun&) = default;
};

struct Config {
  std::string version = "v1";
  Flags flags;
  Sharing sharing;
  DeviceFilter devices;
  Dra dra;
  Imex imex;
  PluginRun run;
  friend bool operator==(const Config&, const Config&) = default;
};

// The sharing strategy of an entry: its own, or else that of the section in effect.
SharingStrategy strategy_of(const Config& config, const SharedResource& entry);
// failRequestsGreaterThanOne of the entry's section.
bool one_slot_per_request(const Config& config, const SharedResource& entry);
// The guard's policy for tenants of an entry.
GuardMemory guard_memory_of(const Config& config, const SharedResource& entry);
// Whether an entry creates a resource for each GPU ("gpu%d"), of which one container may hold several.
bool is_individual(const SharedResource& entry);

// The sharing entry for a resource by its un-renamed name; the later of duplicates wins, as in NVIDIA's plugin. nullptr
// = none. If several entries divide the devices of a name (perDevice), it is the last.
const SharedResource* sharing_of(const Config& config, std::string_view resource_name);

}  // namespace tranche::config
