#pragma once
// What the kernel shows of the driver and its GPUs without the management library, which counts GPUs only when it is
// initialised: device nodes, the PCI functions bound to the driver, the version of its module. Reading it costs a
// handful of file operations and makes no call into the driver. One thread.
#include <string>
#include <vector>

#include "os/loop/fd.h"

namespace tranche::gpu::nvml {

// Unreadable entries are treated as absent.
struct KernelSigns {
  std::vector<std::string> devices;    // "nvidia0", sorted: <root>/dev
  std::vector<std::string> addresses;  // "0000:3b:00.0", sorted: <root>/sys/bus/pci/drivers/nvidia
  std::string version;                 // "580.159.04": <root>/sys/module/nvidia/version
  friend bool operator==(const KernelSigns&, const KernelSigns&) = default;
};
KernelSigns look_at_kernel(const std::string& root);

// Whether a device node of a GPU, or of the driver itself, was created or removed (inotify on <root>/dev). Only a hint
// that ends a wait early: sysfs sends no events, and the /dev of a container is often a copy made at its start.
class DeviceHints {
 public:
  explicit DeviceHints(const std::string& root);
  bool seen();                               // since the last call
  int fd() const { return inotify_.get(); }  // readable when there may be a change; -1 = not available

 private:
  os::Fd inotify_;
};

}  // namespace tranche::gpu::nvml
