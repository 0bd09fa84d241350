#pragma once
// The GPU hardware of the node: the result of a scan of the driver library (gpu/driver), the content of a recording of
// another machine, and the input of the plan. Contains no live quantities (use, health), only what stays the same until
// hardware, driver or MIG layout change. Pure values; GPUs are in driver index order.
#include <array>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/enum_names.h"
#include "base/result.h"
#include "base/units.h"

namespace tranche::gpu {

struct ComputeCapability {
  int major = 0;
  int minor = 0;
  friend auto operator<=>(const ComputeCapability&, const ComputeCapability&) = default;
};

enum class ComputeMode { kDefault, kExclusiveThread, kProhibited, kExclusiveProcess };  // NVML's numbers 0–3
ENUM_NAMES(ComputeMode::kExclusiveProcess, "DEFAULT", "EXCLUSIVE_THREAD", "PROHIBITED", "EXCLUSIVE_PROCESS")

// One MIG device: a compute instance in a GPU instance of `Gpu`.
struct MigDevice {
  std::string uuid;        // "MIG-…"
  std::uint32_t slot = 0;  // NVML MIG index on its parent; gaps are preserved
  std::uint32_t gpu_instance = 0;
  std::uint32_t compute_instance = 0;
  std::string profile;  // "1g.18gb", "1c.2g.35gb", "1g.18gb+me"
  Bytes memory;
  std::uint32_t sm_count = 0;
  std::uint32_t gi_slices = 0;
  std::uint32_t ci_slices = 0;
  std::array<std::uint32_t, 5> engines{};  // copy, decoder, encoder, jpeg, ofa
  Bytes nominal_memory{};  // from the driver's attribute record, which determines the profile name; 0 = not recorded
  // Minors of the two /dev/nvidia-caps/nvidia-cap<n> nodes that give access to the instances; absent = the driver's
  // table was missing.
  std::optional<std::uint32_t> gi_cap{};
  std::optional<std::uint32_t> ci_cap{};
  friend bool operator==(const MigDevice&, const MigDevice&) = default;
};

inline constexpr std::uint32_t kNoInstance = 0xffffffff;  // the driver's number for "no instance", or not known

// An event that names instances cannot be attributed to a device without a placement.
inline bool is_placed(const MigDevice& mig) {
  return mig.gpu_instance != kNoInstance && mig.compute_instance != kNoInstance;
}

// How close two GPUs of the node are; a and b are indices into Inventory::gpus. The levels are NVML's common-ancestor
// levels 0–50.
struct GpuLink {
  std::uint32_t a = 0;
  std::uint32_t b = 0;        // a < b
  int pcie_level = 50;        // 0 same board, 10 single switch, 20 multiple, 30 host bridge, 40 node, 50 system
  std::uint32_t nvlinks = 0;  // active links that end at the other GPU; links to a switch do not count
  friend bool operator==(const GpuLink&, const GpuLink&) = default;
};

struct Gpu {
  std::string uuid;         // "GPU-…": the identity
  std::uint32_t index = 0;  // NVML index: for people and for `index` ids; may change at a reboot
  std::uint32_t minor = 0;  // /dev/nvidia<minor>
  std::string name;         // "NVIDIA H200"
  std::string pci_bus_id;   // "00000000:00:06.0", NVML's format
  std::string pcie_root;    // "pci0000:00", sysfs' name; "" = unknown
  std::uint32_t pci_class = 0x030200;
  std::optional<std::uint32_t> numa_node;
  Bytes memory;  // NVML v1 total; 0 = not reported by the driver
  ComputeCapability compute_capability;
  std::uint32_t sm_count = 0;  // 0 = unknown
  bool mig_capable = false;
  bool mig_enabled = false;
  std::uint32_t max_mig_devices = 0;
  std::vector<MigDevice> mig_devices;
  ComputeMode compute_mode = ComputeMode::kDefault;  // when scanned
  std::string fabric_clique;                         // "<cluster uuid>.<clique id>" once the fabric is up, else ""
  friend bool operator==(const Gpu&, const Gpu&) = default;
};

// What kind of system the driver library serves. Under WSL all GPUs are reached through one node, /dev/dxg; a Tegra
// system (integrated GPU) may have no management library at all. NVIDIA's plugin advertises either as one device.
enum class Platform { kNvml, kWsl, kTegra };
ENUM_NAMES(Platform::kTegra, "nvml", "wsl", "tegra")
inline constexpr const char* kWslDevice = "all";  // also as index
inline constexpr const char* kTegraDevice = "tegra";

// A GPU that the configuration excludes (plan/select.h).
struct SetAside {
  std::string what;  // "GPU 2 (GPU-…)"
  std::string why;
  friend bool operator==(const SetAside&, const SetAside&) = default;
};

struct Inventory {
  Platform platform = Platform::kNvml;
  std::string driver_version;   // "580.159.04"
  int cuda_driver_version = 0;  // 1000·major + 10·minor; 0 = unknown
  std::vector<Gpu> gpus;
  std::vector<GpuLink> links;           // every pair once
  std::vector<std::string> unreadable;  // GPUs that exist but did not answer: one sentence each
  std::vector<std::string> doubts;      // what the driver did not report about a GPU that is served nevertheless
  std::vector<SetAside> set_aside{};    // not from a scan or recording: GPUs that were excluded afterwards
  friend bool operator==(const Inventory&, const Inventory&) = default;
};

// A recording: what `tranche plan --inventory-only` writes and `--inventory F` reads. Reading is strict and names the
// invalid field. Fuzzed.
nlohmann::ordered_json to_json(const Inventory& inventory);
Result<Inventory> parse_inventory(std::string_view json_text, std::string_view source);

// Sets gi_cap and ci_cap of all MIG devices. `table`: the driver's, /proc/driver/nvidia-caps/mig-minors at `path`,
// which identifies GPUs by the minor of their device node, not by index. Lines that cannot be parsed, and devices that
// it does not list, become doubts. Fuzzed.
void set_mig_nodes(std::string_view table, const std::string& path, Inventory& inventory);

const Gpu* find_gpu(const Inventory& inventory, std::string_view uuid);  // nullptr = not found

std::string name_of(const Gpu& gpu);                        // "GPU 2 (GPU-…)"
std::string name_of(const Gpu& gpu, const MigDevice& mig);  // "MIG device 2:1 (MIG-…)"
// A GPU that only drives a display (DGX Station). NVIDIA's programs skip it by name everywhere.
bool is_display_gpu(const Gpu& gpu);

// "00000000:3B:00.0", NVML's format → "0000:3b:00.0", the function's name in sysfs. "" if the input is not an address.
std::string sysfs_address(std::string_view nvml_bus_id);

// "Hopper", "Ada Lovelace"; "" = unknown.
std::string_view architecture_of(ComputeCapability capability);

// SMs of a GPU from its CUDA cores, by architecture; 0 when the architecture is not in the table.
std::uint32_t sm_count_from_cores(std::uint32_t cores, ComputeCapability capability);

// A scan completed with the GPUs that only an earlier scan found, except those that were certainly removed. A GPU that
// stopped answering stays in every plan, as unhealthy: it may come back, and Tranche does not end its tenants.
struct Kept {
  Inventory inventory;
  std::vector<std::string> missing;  // UUIDs that only the earlier scan had
};
Kept keep_missing(const Inventory& before, const Inventory& scanned,
                  const std::function<bool(const Gpu& gpu)>& is_pulled);

// The links between these GPUs, by their places here; the last source that has one counts.
std::vector<GpuLink> links_among(const std::vector<Gpu>& gpus, std::initializer_list<const Inventory*> sources);

// What changed between two scans, one sentence each, for logs and events; empty = equal. Whether a change matters is
// decided by the plan.
std::vector<std::string> changes(const Inventory& before, const Inventory& after);

}  // namespace tranche::gpu
