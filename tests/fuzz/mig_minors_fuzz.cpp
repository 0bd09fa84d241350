// Any text as the driver's table of MIG capability nodes: every number found is one that a device node can have, and
// every line was either taken or counted.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "gpu/inventory/mig_minors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto table = tranche::inventory::parse_mig_minors(text);
  for (const auto& [key, minor] : table.gpu_instances) {
    const auto [gpu, gi] = key;
    if (minor > 0xfffff || table.of(gpu, gi) != minor) std::abort();
  }
  for (const auto& [key, minor] : table.compute_instances) {
    const auto [gpu, gi, ci] = key;
    if (minor > 0xfffff || table.of(gpu, gi, ci) != minor) std::abort();
  }
  if (table.not_understood.size() > table.bad_lines || table.not_understood.size() > 3) std::abort();
  return 0;
}
