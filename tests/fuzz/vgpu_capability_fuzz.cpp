// Any bytes as a PCI configuration space: never read beyond it, and what is reported of a host fits its fields.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "labels/pci.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto vgpu = tranche::label::vgpu_of({reinterpret_cast<const char*>(data), size});
  if (vgpu.has_value() != (size >= 256)) std::abort();
  if (!vgpu) return 0;
  if (vgpu->host_driver_version.size() > 10 || vgpu->host_driver_branch.size() > 10) std::abort();
  if (!vgpu->present && !vgpu->host_driver_version.empty()) std::abort();
  return 0;
}
