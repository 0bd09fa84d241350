#pragma once
// What the PCI configuration space of NVIDIA's functions says about virtual GPUs: their vendor-specific capability
// tells it, and the driver of the host. Pure; fuzzed.
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tranche::label {

struct Vgpu {
  bool present = false;
  std::string host_driver_version;  // "" when it is not told
  std::string host_driver_branch;
  friend bool operator==(const Vgpu&, const Vgpu&) = default;
};

// `config`: the bytes of one function, of which at least 256 are needed: the kernel gives fewer to a process without
// the right to see them (kDenied). A virtual GPU that does not tell its host's driver has empty texts.
Result<Vgpu> vgpu_of(std::string_view config);

}  // namespace tranche::label
