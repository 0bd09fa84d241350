#pragma once
// Reads and changes how GPUs are partitioned by MIG. Layouts are read by GPU instance, so instances without a compute
// instance are included. Each changing call is one call of the driver; the caller reads the layout again afterwards,
// because a driver may report success and change nothing. Handles are looked up for every call, because a handle is
// invalid once its instance is destroyed. Calls block, sometimes for seconds: use one thread, never the loop's.
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "gpu/driver/nvml.h"
#include "gpu/inventory/inventory.h"

namespace tranche::host {

struct MigPlace {
  std::uint32_t start = 0;
  std::uint32_t size = 0;
  friend auto operator<=>(const MigPlace&, const MigPlace&) = default;
};

// A GPU-instance profile of one GPU.
struct MigKind {
  std::uint32_t number = 0;  // in the driver's enumeration
  std::uint32_t id = 0;      // the profile id that the driver's calls accept
  MigProfile profile;
  std::uint64_t memory_mib = 0;
  std::array<std::uint32_t, 5> engines{};  // copy, decoder, encoder, jpeg, ofa
  std::vector<MigPlace> places;            // all valid placements, in memory slices; not only the free ones
};

struct MigComputeInstance {
  std::uint32_t id = 0;
  std::uint32_t profile_id = 0;
  std::uint32_t number = 0;  // of its profile in the driver's enumeration
  std::uint32_t slices = 0;
  std::uint32_t start = 0;  // in compute slices of the GPU instance
  std::string uuid;         // "MIG-…"; "" = the driver lists no MIG device for it
  friend bool operator==(const MigComputeInstance&, const MigComputeInstance&) = default;
};
struct MigGpuInstance {
  std::uint32_t id = 0;
  std::uint32_t profile_id = 0;
  MigPlace place;
  std::vector<MigComputeInstance> compute;
  std::vector<std::uint32_t> processes;  // that the driver lists on it
  friend bool operator==(const MigGpuInstance&, const MigGpuInstance&) = default;
};
struct MigGpu {
  std::string uuid;
  std::uint32_t index = 0;
  std::uint32_t minor = 0;
  std::string name;
  std::string pci_bus_id;
  std::uint32_t pci_device_id = 0;     // 0xDDDDVVVV
  std::uint32_t pci_subsystem_id = 0;  // 0xSSSSVVVV
  Bytes memory{};
  inventory::ComputeCapability compute_capability;
  bool capable = false;
  bool enabled = false;
  bool pending = false;        // the mode after a reset; differs from `enabled` while a reset is needed
  std::vector<MigKind> kinds;  // empty if the driver lists none, such as a driver older than 550 while MIG is off
  std::vector<MigGpuInstance> instances;  // by placement
  std::vector<std::uint32_t> processes;   // on the whole GPU, not in an instance
};

struct MigCare {
  std::set<std::uint32_t> pass_over{};                    // GPUs that no call touches: one hangs on them
  std::function<void(std::uint32_t index)> on_reading{};  // before the first call on each GPU that is read
};

class MigAdmin {
 public:
  // kUnavailable: no driver yet.
  static Result<std::unique_ptr<MigAdmin>> open(const NvmlSettings& settings, MigCare care = {});
  virtual ~MigAdmin() = default;  // shuts the library down

  // Omits GPUs that do not answer, one sentence each in `silent`.
  virtual Result<std::vector<MigGpu>> read(std::vector<std::string>& silent) = 0;
  virtual Result<MigGpu> read(const std::string& gpu_uuid) = 0;

  enum class Activation { kActive, kInUse, kNeedsReset };
  virtual Result<Activation> set_mode(const std::string& gpu_uuid, bool on) = 0;
  // Returns the new instance's id.
  virtual Result<std::uint32_t> create_gpu_instance(const std::string& gpu_uuid, std::uint32_t profile_id,
                                                    MigPlace place) = 0;
  // With that many compute slices; without `start` the driver chooses. Returns the new instance's id.
  virtual Result<std::uint32_t> create_compute_instance(const std::string& gpu_uuid, std::uint32_t gpu_instance,
                                                        std::uint32_t slices, std::optional<std::uint32_t> start) = 0;
  virtual Status destroy_compute_instance(const std::string& gpu_uuid, std::uint32_t gpu_instance,
                                          std::uint32_t compute_instance) = 0;
  virtual Status destroy_gpu_instance(const std::string& gpu_uuid, std::uint32_t gpu_instance) = 0;
};

}  // namespace tranche::host
