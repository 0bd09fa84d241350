#pragma once
// One look at the whole node through the management library: by index, never stopping at a GPU that does not answer
// (one lost GPU makes the look-up by UUID fail for all others). One thread.
#include <string>
#include <vector>

#include "base/result.h"
#include "gpu/driver/library.h"
#include "gpu/inventory/inventory.h"

namespace tranche::host::nvml {

struct Held {  // a GPU that answered, with its handle, which lives until the library is shut down
  std::string uuid;
  std::uint32_t index = 0;
  Device device = nullptr;
  bool mig_enabled = false;
};
struct Missing {  // a GPU that is counted but did not answer
  std::uint32_t index = 0;
  bool lost = false;  // the driver says so (GPU_IS_LOST); otherwise it has no power, no permission …
};

struct Scan {
  inventory::Inventory inventory;
  std::vector<Held> held;  // in the order of inventory.gpus
  std::vector<Missing> missing;
};

struct ScanPlace {
  std::string root = "/";       // what /sys and /proc are looked up under
  bool a_node_for_each = true;  // every GPU has a /dev/nvidia<minor>; false under WSL
};

// known: UUIDs from earlier scans, by index, to name a GPU that is silent now.
Result<Scan> scan_node(const Library& library, const ScanPlace& place, const std::vector<Held>& known);

}  // namespace tranche::host::nvml
