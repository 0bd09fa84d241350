#pragma once
// What the kernel shows of the driver and its GPUs without the management library, which counts GPUs when it is started
// and never again: device nodes, the PCI functions that the driver has taken, the version of its module. Reading it is
// a handful of file operations and asks the driver for nothing. One thread.
#include <string>
#include <vector>

#include "os/loop/fd.h"

namespace tranche::host::nvml {

// Of what cannot be read nothing is known, which is no change from nothing.
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
  bool seen();                               // since the last question
  int fd() const { return inotify_.get(); }  // readable when there may be something to see; -1 = never

 private:
  Fd inotify_;
};

}  // namespace tranche::host::nvml
