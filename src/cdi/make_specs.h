#pragma once
// Inventory, configuration and driver files → the CDI specs of this node, one per class. Does not decide who gets which
// device (allocate) and does not access files (cdi/live). Deterministic: equal inputs, equal bytes. Pure.
#include <string>
#include <vector>

#include "cdi/driver_files.h"
#include "cdi/feature_flags.h"
#include "cdi/spec.h"
#include "config/model.h"
#include "gpu/inventory/inventory.h"

namespace tranche::cdi {

struct Settings {
  config::Flags flags;             // id strategy, roots, hook program, gdrcopy, gds, mofed
  std::vector<int> imex_channels;  // the requested ones
  bool mps = false;  // Tranche shares GPUs by MPS: tenants get endpoints, not the host's own MPS directory
  // The device nodes were found in the driver root's own /dev, so the runtime finds them there too; otherwise they are
  // below nvidiaDevRoot. NVIDIA's rule.
  bool nodes_in_driver_root = false;
  Features features;
};

struct MadeSpecs {
  std::vector<Spec> specs;         // by class name; a class without devices has none
  std::vector<std::string> notes;  // what was omitted or is missing on the node, and why: one sentence each
};

MadeSpecs make_specs(const gpu::Inventory& inventory, const Settings& settings, const DriverFiles& files);

// The device names that make_specs gives to a Tegra and a WSL system with uuid names, and to the latter with index
// names: the plan uses the same names.
inline constexpr const char* kTegraName = "tegra";
inline constexpr const char* kWslName = "all";

}  // namespace tranche::cdi
