#pragma once
// For tests: GPUs that differ in nothing but how they are linked.
#include <cstdint>
#include <functional>
#include <string>

#include "gpu/inventory/inventory.h"

namespace tranche::grants {

// GPU-0, GPU-1 …, and one link a pair.
inline gpu::Inventory with_links(int gpus, const std::function<gpu::GpuLink(std::uint32_t, std::uint32_t)>& link) {
  gpu::Inventory inventory;
  for (int i = 0; i < gpus; ++i) {
    gpu::Gpu gpu;
    gpu.uuid = "GPU-" + std::to_string(i);
    inventory.gpus.push_back(gpu);
  }
  for (std::uint32_t a = 0; a < static_cast<std::uint32_t>(gpus); ++a)
    for (std::uint32_t b = a + 1; b < static_cast<std::uint32_t>(gpus); ++b) inventory.links.push_back(link(a, b));
  return inventory;
}

}  // namespace tranche::grants
