#include <algorithm>
#include <map>
#include <utility>

#include "gpu/inventory/compare.h"

namespace tranche::inventory {

Kept keep_missing(const Inventory& before, const Inventory& scanned,
                  const std::function<bool(const Gpu& gpu)>& is_pulled) {
  Kept kept{scanned, {}};
  if (before.platform != scanned.platform) return kept;  // no device of it is the same
  for (const Gpu& gpu : before.gpus) {
    if (find_gpu(scanned, gpu.uuid) != nullptr || is_pulled(gpu)) continue;
    kept.missing.push_back(gpu.uuid);
    kept.inventory.gpus.push_back(gpu);
  }
  if (kept.missing.empty()) return kept;
  std::ranges::stable_sort(kept.inventory.gpus, {}, &Gpu::index);

  // Links refer to GPUs by position, and positions have moved.
  std::map<std::string_view, std::uint32_t> position;
  for (std::uint32_t i = 0; i < kept.inventory.gpus.size(); ++i) position[kept.inventory.gpus[i].uuid] = i;
  std::map<std::pair<std::uint32_t, std::uint32_t>, GpuLink> links;
  for (const Inventory* source : {&before, &scanned}) {  // the newer value wins
    for (const GpuLink& link : source->links) {
      if (link.a >= source->gpus.size() || link.b >= source->gpus.size()) continue;
      const auto a = position.find(source->gpus[link.a].uuid);
      const auto b = position.find(source->gpus[link.b].uuid);
      if (a == position.end() || b == position.end()) continue;
      const auto [low, high] = std::minmax(a->second, b->second);
      links[{low, high}] = {low, high, link.pcie_level, link.nvlinks};
    }
  }
  kept.inventory.links.clear();
  for (const auto& [pair, link] : links) kept.inventory.links.push_back(link);
  return kept;
}

}  // namespace tranche::inventory
