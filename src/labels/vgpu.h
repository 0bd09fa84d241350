#pragma once
// Virtual GPUs in the PCI configuration space of NVIDIA's functions: their vendor-specific capability identifies them
// and the driver of the host. Pure; fuzzed.
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tranche::label {

struct Vgpu {
  bool present = false;
  std::string host_driver_version;  // "" if not reported
  std::string host_driver_branch;
  friend bool operator==(const Vgpu&, const Vgpu&) = default;
};

// `config`: the bytes of one function, at least 256: the kernel returns fewer to a process without permission
// (kDenied). A virtual GPU that does not report its host's driver has empty texts.
Result<Vgpu> vgpu_of(std::string_view config);

}  // namespace tranche::label
