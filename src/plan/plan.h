#pragma once
// What the node should advertise and enforce, from configuration and inventory alone. All later stages (advertise,
// allocate, mps, label, metrics, `tranche plan`) read this value. It is the desired state; advertise() combines it with
// health. Equal inputs give equal plans, in a defined order. Pure values.
#include <cstdint>
#include <expected>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/problem.h"
#include "base/shared_list.h"
#include "base/units.h"
#include "config/model.h"
#include "gpu/health/healthchecks.h"
#include "gpu/inventory/inventory.h"

namespace tranche::plan {

// Bytes: kubelet receives the list of a resource in one message, with the limit that Go's gRPC has by default.
inline constexpr std::uint64_t kLargestList = 4 << 20;

// Variables of a client of MPS. With the first two it lowers its own limits below the daemon's: the driver drops
// *every* memory limit of a client if it cannot parse the value, or if that names a device that the client does not see
// (docs/internals/mps-contract.md, "Client variables").
inline constexpr const char* kPinnedLimitVariable = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT";
inline constexpr const char* kThreadPercentageVariable = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE";
inline constexpr const char* kPipeVariable = "CUDA_MPS_PIPE_DIRECTORY";
inline constexpr const char* kLogVariable = "CUDA_MPS_LOG_DIRECTORY";

// Limits of one slot on its GPU.
struct ShareLimits {
  Bytes memory;           // 0 = not limited (time-slicing, exclusive, or memory unknown)
  Percent threads;        // the value given to MPS; 0 = not limited
  std::uint32_t sms = 0;  // the SMs that this percentage yields on this GPU; 0 = not limited or unknown
  friend bool operator==(const ShareLimits&, const ShareLimits&) = default;
};

// The rules by which a grant of several slots is sized on a device; docs/guide/share-sizes.md.
struct SharePolicy {
  config::ThreadsPolicy threads;
  config::MemoryPolicy memory;
  Bytes reserve;  // subtracted before dividing
  config::SmRounding rounding = config::SmRounding::kUp;
  friend bool operator==(const SharePolicy&, const SharePolicy&) = default;
};

// A device of a resource: a whole GPU or one MIG device, divided into `slots` slots.
struct PlannedDevice {
  std::string uuid;      // "GPU-…" or "MIG-…"
  std::string gpu_uuid;  // the physical GPU (same as uuid for a whole GPU)
  std::string index;     // "0", or "0:1" for MIG
  bool is_mig = false;
  bool replicated = false;  // ids carry "::<n>"
  std::uint32_t slots = 1;
  ShareLimits share;  // of one slot
  SharePolicy policy;
  Bytes memory;  // of the whole device
  std::uint32_t sm_count = 0;
  gpu::ComputeCapability compute_capability;
  std::optional<std::uint32_t> numa_node;
  std::vector<std::string> paths;  // device nodes: "/dev/nvidia0", cap nodes for MIG
  std::string pool;                // PlannedPool::id; "" if MPS does not serve it
  friend bool operator==(const PlannedDevice&, const PlannedDevice&) = default;
};

// A renamed resource leaves one without devices under its original name, so that the node shows 0 there instead of
// nothing.
struct PlannedResource {
  std::string name;           // advertised: "nvidia.com/gpu.shared"
  std::string original_name;  // before renaming: "nvidia.com/gpu"
  config::SharingStrategy sharing = config::SharingStrategy::kNone;
  std::uint32_t replicas = 1;         // slots of one device; 0 = differs between devices
  bool one_slot_per_request = false;  // effective failRequestsGreaterThanOne
  config::SplitPolicy split = config::SplitPolicy::kReject;
  std::vector<PlannedDevice> devices;  // in driver index order
  // The guard's policy for its tenants; without meaning if MPS does not serve it.
  config::GuardMemory guard_memory = config::Guard{}.memory;
  friend bool operator==(const PlannedResource&, const PlannedResource&) = default;
};

// The devices served by one MPS control daemon. A device has a pool of its own, because a pool is a fault domain,
// unless one container may hold slots of several (SplitPolicy::kSpan): a CUDA process can connect to one daemon only.
struct PlannedPool {
  struct Limit {
    std::string uuid;    // device
    ShareLimits client;  // the maximum of one client of this pool: the daemon's setting
    friend bool operator==(const Limit&, const Limit&) = default;
  };
  std::string id;                    // short and stable, valid as a directory name: "gpu-3f2a1b4c", "mig-…", "set-…"
  std::vector<std::string> devices;  // UUIDs
  std::vector<Limit> limits;         // one per device, same order
  std::uint32_t max_clients = 48;    // per server, the smallest value of its devices (plan/plan_steps.h)
  bool is_mig = false;
  config::ComputeModePolicy compute_mode = config::ComputeModePolicy::kExclusive;  // MIG devices have none: kLeave
  friend bool operator==(const PlannedPool&, const PlannedPool&) = default;
};

// A device that is not in the plan, or not as requested; one sentence each: "MIG mode is enabled and it has no MIG
// devices".
using LeftOut = gpu::SetAside;

struct Plan {
  std::vector<PlannedResource> resources;  // by name
  std::vector<PlannedPool> pools;          // by id
  // GPUs that claims share (`dra.devices`), in driver index order; each has a pool of its own,
  // unless `dra.split` joins them. After them the MIG devices for claims, which have no pool.
  std::vector<PlannedDevice> for_claims;
  std::vector<LeftOut> left_out;
  std::vector<std::string> notes;  // roundings, hazards, settings without effect; also the warnings
  std::vector<Problem> warnings;   // what the configuration names and the node lacks
  friend bool operator==(const Plan&, const Plan&) = default;
};

// Fails only where NVIDIA's plugin exits because a configuration is impossible on this hardware (MPS on MIG devices,
// MIG single with unlike devices …); the Problems then contain the remedy.
std::expected<Plan, std::vector<Problem>> make_plan(const config::Config& config, const gpu::Inventory& inventory);

// nlohmann's conversions, for `tranche plan --json`, the status socket and golden tests: docs/reference/plan.md.
void to_json(nlohmann::ordered_json& json, const ShareLimits& share);
void to_json(nlohmann::ordered_json& json, const Plan& plan);

// The device ids in kubelet's requests: "<uuid>" for an undivided device, "<uuid>::<n>" for slot n of a divided one,
// exactly as NVIDIA's. Fuzzed: parse ∘ render is the identity.
struct SlotId {  // a view into the text
  std::string_view uuid;
  std::optional<std::uint32_t> ordinal;
  friend auto operator<=>(const SlotId&, const SlotId&) = default;
};

std::string render(const SlotId& id);
std::optional<SlotId> parse_slot_id(std::string_view text);
bool is_slot_of(const PlannedDevice& device, std::string_view id);

// Of all slots of a device, in their order.
std::vector<std::string> slot_ids(const PlannedDevice& device);

// The device part only: the text before the first "::".
std::string_view device_of(std::string_view slot_id);

const PlannedResource* find_resource(const Plan& plan, std::string_view name);
const PlannedPool* find_pool(const Plan& plan, std::string_view id);
// The device of a resource, of the resource of that name, or of any; nullptr = none.
const PlannedDevice* find_device(const PlannedResource& resource, std::string_view uuid);
const PlannedDevice* find_device(const Plan& plan, std::string_view resource, std::string_view uuid);
const PlannedDevice* find_device(const Plan& plan, std::string_view uuid);
std::uint64_t slots_of(const PlannedResource& resource);
std::string name_of(const PlannedDevice& device);  // "GPU 2 (GPU-…)", "MIG device 2:1 (MIG-…)"
// In driver order: by GPU, then by MIG device.
std::pair<std::uint64_t, std::uint64_t> by_index(const PlannedDevice& device);

// UUIDs of planned devices that are no longer in the inventory, or have changed their kind, with the reason: if no plan
// is possible for the newest inventory, the previous plan stays. Empty for a plan that was made from this inventory.
std::map<std::string, std::string> stale_devices(const Plan& plan, const gpu::Inventory& inventory,
                                                 config::MigStrategy strategy);

// --- what kubelet sees of it
// ------------------------------------------------------------------------------------------

// The present faults. Absent = healthy.
struct Faults {
  std::map<std::string, gpu::Unhealthy> devices;  // by device or GPU UUID; a GPU's fault covers its MIG devices
  std::map<std::string, std::string> pools;       // by PlannedPool::id: not serving, with the reason in one sentence
  friend bool operator==(const Faults&, const Faults&) = default;
};

struct AdvertisedSlot {
  std::string id;
  bool healthy = true;
  std::optional<std::uint32_t> numa_node;
  friend bool operator==(const AdvertisedSlot&, const AdvertisedSlot&) = default;
};

struct Advertised {
  std::string resource;
  SharedList<AdvertisedSlot> slots;  // by device in driver order, then by ordinal
  friend bool operator==(const Advertised&, const Advertised&) = default;
};

// Slots that kubelet sees but must not allocate, although they are not faulty, by resource and slot id, with the
// reason: those that containers still hold from before a change of configuration, and those that the change cannot
// offer yet (src/grants/change). kubelet sees them as unhealthy, so it neither allocates them nor takes them from their
// holders. A slot or resource that is not in the plan is advertised as long as it is listed here.
using Withheld = std::map<std::string, std::map<std::string, std::string>>;

// The device lists that kubelet should see now. Recovery takes the same path as failure: when a fault is no longer in
// Faults, its slots are healthy again.
std::vector<Advertised> advertise(const Plan& plan, const Faults& faults, const Withheld& withheld = {});

// Why this slot must not be allocated now; nullptr = not withheld.
const std::string* reason_withheld(const Withheld& withheld, const std::string& resource, const std::string& slot);

// Why slots of this device are unhealthy; absent if they are healthy.
std::optional<gpu::Unhealthy> fault_of(const PlannedDevice& device, const Faults& faults);

}  // namespace tranche::plan
