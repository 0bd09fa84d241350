#pragma once
// The driver's table of capability nodes, /proc/driver/nvidia-caps/mig-minors: which /dev/nvidia-caps/nvidia-cap<n>
// gives access to a GPU instance and which to a compute instance. The table identifies GPUs by the minor of their
// device node, not by index. Lines that cannot be parsed are counted and quoted; the other lines are used. Pure;
// fuzzed.
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/inventory/inventory.h"

namespace tranche::gpu {

struct MigMinors {
  std::map<std::array<std::uint32_t, 3>, std::uint32_t> nodes;  // (GPU minor, GI, CI or kNoInstance) → n
  std::vector<std::string> not_understood;                      // one sentence for each of the first few lines
  std::size_t bad_lines = 0;

  std::optional<std::uint32_t> of(std::uint32_t gpu_minor, std::uint32_t gi, std::uint32_t ci = kNoInstance) const;
};

MigMinors parse_mig_minors(std::string_view text);

}  // namespace tranche::gpu
