#pragma once
// What a GPU is cut into now, as the driver reports it by GPU instance (one without a compute instance is there too),
// and who holds the parts. mig/driver reads it from the driver; mig/mig_models.h makes it for GPUs that are not here.
// Pure values.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "gpu/inventory/inventory.h"
#include "mig/profile.h"

namespace tranche::mig {

// A process or pod for whose sake an instance must stay.
struct Holder {
  std::string who;        // "pod default/trainer (container main)", "process 4711 (python3)"
  std::uint32_t pid = 0;  // 0 = not known
  friend bool operator==(const Holder&, const Holder&) = default;
};

struct ComputeInstance {
  std::uint32_t id = 0;
  Placement placement;  // in compute slices of the GPU instance
  std::string uuid{};   // "MIG-…"; "" = the driver lists no MIG device for it
  bool held = false;    // by a holder, named or not
  friend bool operator==(const ComputeInstance&, const ComputeInstance&) = default;
};

struct GpuInstance {
  std::uint32_t id = 0;
  std::uint32_t profile_id = 0;
  Placement placement;
  std::vector<ComputeInstance> compute{};
  bool held = false;  // the whole instance must stay; with held compute instances it must as well
  std::vector<Holder> holders{};
  bool busy() const;
  friend bool operator==(const GpuInstance&, const GpuInstance&) = default;
};

// How the mode of a GPU is changed.
enum class ModeChange {
  kReset,  // Ampere: takes effect when the GPU is reset, or at the next start of the machine
  kIdle,   // Hopper and later: takes effect at once when no process holds the GPU
};
ModeChange mode_change_of(inventory::ComputeCapability capability);

struct GpuState {
  std::uint32_t index = 0;
  std::string uuid;
  std::string name;                    // "NVIDIA H200"
  std::uint32_t pci_device_id = 0;     // 0xDDDDVVVV, as NVML packs it; 0 = not known
  std::uint32_t pci_subsystem_id = 0;  // 0xSSSSVVVV; 0 = not known
  inventory::ComputeCapability compute_capability;
  Bytes memory{};
  bool capable = false;
  bool enabled = false;
  bool pending = false;                // the mode after a reset; differs from `enabled` while one is needed
  std::vector<Profile> profiles;       // the driver's, else those of mig/mig_models.h; empty = not known
  std::vector<GpuInstance> instances;  // by placement
  std::vector<Holder> holders;         // of the whole GPU, of no instance
  friend bool operator==(const GpuState&, const GpuState&) = default;
};

// "3g.40gb", "1c.3g.40gb" of every compute instance, in the order of placement: what mig-parted compares.
std::vector<std::string> device_names(const GpuState& gpu);
// "1g.10gb"; "profile 19" where the GPU's profiles have no such number.
std::string profile_name(const std::vector<Profile>& profiles, std::uint32_t id);

}  // namespace tranche::mig
