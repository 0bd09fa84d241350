#pragma once
// One scan of the whole node through the management library: by index, and past GPUs that do not answer (one lost GPU
// makes the look-up by UUID fail for all others). One thread.
#include <string>
#include <vector>

#include "base/result.h"
#include "gpu/driver/library.h"
#include "gpu/inventory/inventory.h"

namespace tranche::gpu::nvml {

struct Held {  // a GPU that answered, with its handle, which is valid until the library is shut down
  std::string uuid;
  std::uint32_t index = 0;
  Device device = nullptr;
  bool mig_enabled = false;
};
struct Missing {  // a GPU that the driver counts but that did not answer
  std::uint32_t index = 0;
  bool lost = false;  // the driver reports GPU_IS_LOST; otherwise no power, no permission …
};

struct Scan {
  Inventory inventory;
  std::vector<Held> held;  // in the order of inventory.gpus
  std::vector<Missing> missing;
};

struct ScanPlace {
  std::string root = "/";       // prefix of /sys and /proc
  bool a_node_for_each = true;  // every GPU has a /dev/nvidia<minor>; false under WSL
};

ComputeMode compute_mode_of(const Functions& f, Device device);  // kDefault if the driver does not report it

// known: UUIDs from earlier scans, by index, to name a GPU that does not answer now.
Result<Scan> scan_node(const Library& library, const ScanPlace& place, const std::vector<Held>& known);

}  // namespace tranche::gpu::nvml
