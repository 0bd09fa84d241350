#pragma once
// Which devices a driver event is about. A GPU represents itself and all MIG devices on it (advertise/ spreads a GPU's
// fault); an event that names instances is about those alone. Pure.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/inventory/inventory.h"
#include "gpu/inventory/mig_uuid.h"

namespace tranche::health {

struct Target {
  std::string uuid;  // GPU or MIG device
  std::string gpu;   // the GPU it is, or is on
  friend bool operator==(const Target&, const Target&) = default;
};

struct Scope {
  std::vector<Target> targets;  // in driver order
  bool guessed = false;         // the driver did not report which GPU, so all are targets
  std::string unattributed;     // why there are no targets, for the log
};

// uuid: of a GPU or a MIG device, by its present or its old name; "" = the driver did not report it. The instances are
// kNoInstance if the event names none. An event that names both is about that MIG device; one that names only the GPU
// instance is about all MIG devices in it.
Scope scope_of(const inventory::Inventory& inventory, std::string_view uuid, std::uint32_t gpu_instance,
               std::uint32_t compute_instance);

}  // namespace tranche::health
