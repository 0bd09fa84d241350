#pragma once
// The configuration as the rest of the program sees it: one plain value with every default filled in. The file format
// is NVIDIA's `version: v1` (same keys, types and defaults); every key of ours is an addition that NVIDIA's programs
// ignore. This header holds no parsing (config/parse.h) and no precedence of flags (config/resolve.h).
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

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
  std::uint32_t replicas = 1;
  Place place;  // where it was written, for later Problems
  friend bool operator==(const SharedResource&, const SharedResource&) = default;
};

// What happens to a GPU's compute mode while MPS shares it. Extension: sharing.mps.computeMode.
enum class ComputeModePolicy { kExclusive, kLeave };
// What to do with an SM count known to compute wrong (data/sm-counts). Extension: sharing.mps.smRounding.
enum class SmRounding { kUp, kDown, kOff };
std::string_view to_string(ComputeModePolicy);  // "exclusive", "leave"
std::string_view to_string(SmRounding);         // "up", "down", "off"

struct Sharing {
  SharingStrategy strategy = SharingStrategy::kNone;  // of the section that is in force; MPS wins over time-slicing
  bool rename_by_default = false;
  bool fail_requests_greater_than_one = false;  // default false for time-slicing, true for MPS, as NVIDIA's
  std::vector<SharedResource> resources;        // of the section in force
  ComputeModePolicy compute_mode = ComputeModePolicy::kExclusive;
  SmRounding sm_rounding = SmRounding::kUp;
  friend bool operator==(const Sharing&, const Sharing&) = default;
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
  Imex imex;
  friend bool operator==(const Config&, const Config&) = default;
};

// The sharing entry for a resource by its un-renamed name; the later of duplicates wins, as NVIDIA's. nullptr = none.
const SharedResource* sharing_of(const Config& config, std::string_view resource_name);

}  // namespace tranche::config
