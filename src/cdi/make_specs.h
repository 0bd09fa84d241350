#pragma once
// Inventory, configuration and driver files → the CDI specs of this node, one per class. Does not decide who gets which
// device (allocate) and does not access files (cdi/live). Deterministic: equal inputs, equal bytes. Pure.
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/problem.h"
#include "cdi/spec.h"
#include "config/model.h"
#include "gpu/inventory/inventory.h"

namespace tranche::cdi {

// The files of the node for containers that use its GPUs, as found by cdi/live: device nodes, driver libraries,
// programs, sockets. Every path is relative to the root that it was found in and absolute there
// ("/usr/lib64/libcuda.so.580.1"); the configuration determines where that root is on the host.

// A file, directory, socket or device node. `real` is its path with every link resolved inside the root; a runtime on
// the host can open it, whatever absolute links the driver root has.
struct Found {
  std::string path;
  std::string real;
  friend auto operator<=>(const Found&, const Found&) = default;
};

// A symbolic link that a container needs too: `path` points at `target` (relative, or absolute in the root). `real` is
// the final path.
struct Link {
  std::string path;
  std::string target;
  std::string real;
  friend auto operator<=>(const Link&, const Link&) = default;
};

struct DrmNodes {
  std::set<Found> nodes;         // /dev/dri/card1, /dev/dri/renderD129
  std::set<Link> by_path_links;  // /dev/dri/by-path/pci-0000:3b:00.0-card → ../card1
};

struct DriverFiles {
  // The device nodes were found in the driver root's own /dev, so the runtime finds them there too; otherwise they are
  // below nvidiaDevRoot. NVIDIA's rule.
  bool nodes_in_driver_root = false;
  std::vector<Problem> problems;  // of a Tegra system's CSV files
  // Below the device root.
  std::set<Found> gpu_nodes;            // /dev/nvidia0, /dev/nvidia-caps/nvidia-cap12, /dev/dxg
  std::set<Found> control_nodes;        // /dev/nvidiactl, /dev/nvidia-uvm …
  std::map<std::string, DrmNodes> drm;  // by UUID of the GPU
  std::optional<Found> imex_channel;
  std::set<Found> gdrcopy, gds, mofed;  // device nodes
  // Below the driver root.
  std::string library_dir;             // of libcuda.so.<version>; "" if not searched (WSL, Tegra)
  std::set<Found> libraries;           // <name>.so.<driver version>, and named ones
  std::set<Found> explicit_libraries;  // only for the feature enable-explicit-driver-libraries
  std::set<Found> files;               // graphics configuration, firmware
  std::set<Found> binaries;
  std::set<Found> sockets;      // persistenced, fabric manager
  std::set<Found> mps_pipe;     // /tmp/nvidia-mps: none or one
  std::set<Found> gds_files;    // /run/udev, /etc/cufile.json
  std::set<Found> directories;  // Tegra: dir entries of the CSV files
  // Beside the libraries: libcuda.so.1 → libcuda.so.580.1; Tegra: sym entries of the CSV files; WSL: nvidia-smi.
  std::set<Link> links;
  bool hook_program_missing = false;  // false also if its folder on the host is not visible to this process
};

struct MadeSpecs {
  std::vector<Spec> specs;         // by class name; a class without devices has none
  std::vector<std::string> notes;  // what was omitted or is missing on the node, and why: one sentence each
};

MadeSpecs make_specs(const gpu::Inventory& inventory, const config::Config& config, const DriverFiles& files);

// Of the values of --cdi-feature-flags and --cdi-disable-hooks. NVIDIA's programs ignore an unknown value; here it is a
// warning, and specs are written nevertheless.
std::vector<Problem> flag_problems(const config::PluginRun& run);

}  // namespace tranche::cdi
