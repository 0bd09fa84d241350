#pragma once
// Inventory + configuration + what the driver root holds → the CDI specs of this node, one a class. Says nothing about
// who asks for which device (allocate) and touches no file (cdi/live). Deterministic: equal inputs, equal bytes. Pure.
#include <string>
#include <vector>

#include "cdi/driver_files.h"
#include "cdi/spec.h"
#include "cdi/words.h"
#include "config/model.h"
#include "gpu/inventory/inventory.h"

namespace tranche::cdi {

struct Settings {
  config::Flags flags;             // id strategy, roots, hook program, gdrcopy, gds, mofed
  std::vector<int> imex_channels;  // those asked for
  bool mps = false;  // Tranche shares GPUs by MPS: tenants get endpoints, not the host's own MPS directory
  // The device nodes were found in the driver root's own /dev, so that is where the runtime finds them too; otherwise
  // they are below nvidiaDevRoot. NVIDIA's rule.
  bool nodes_in_driver_root = false;
  Words words;
};

struct MadeSpecs {
  std::vector<Spec> specs;         // by class name; a class without devices has none
  std::vector<std::string> notes;  // what was left out or is missing on the node, and why: one sentence each
};

MadeSpecs make_specs(const inventory::Inventory& inventory, const Settings& settings, const DriverFiles& files);

// The device names that make_specs gives to a Tegra and a WSL system under uuid names, and to the latter under index
// names: what the plan calls those devices.
inline constexpr const char* kTegraName = "tegra";
inline constexpr const char* kWslName = "all";

}  // namespace tranche::cdi
