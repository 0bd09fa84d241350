#include "gpu/driver/topology.h"

#include <algorithm>

namespace tranche::host::nvml {
namespace {

// For each other GPU, the number of active links of `from` that end there. Links into a switch end at the switch's
// address, or at FFFFFFFF:FF:FF.0 if a virtual machine hides it, and so are not counted for any GPU.
std::vector<std::uint32_t> direct_links(const Functions& f, Device from, const std::vector<inventory::Gpu>& gpus) {
  std::vector<std::uint32_t> links(gpus.size(), 0);
  for (std::uint32_t link = 0; link < kMaxNvLinks; ++link) {
    std::int32_t state = 0;
    const Return code = call(f.nvlink_state, from, link, &state);
    if (code == Return::kInvalidArgument || code == Return::kNotSupported || code == Return::kGpuIsLost) break;
    if (code != Return::kSuccess || state != kEnabled) continue;
    std::uint32_t type = kRemoteIsGpu;
    if (call(f.nvlink_remote_type, from, link, &type) == Return::kSuccess && type != kRemoteIsGpu) continue;
    PciInfo remote{};
    if (call(f.nvlink_remote_pci, from, link, &remote) != Return::kSuccess) continue;
    remote.bus_id[sizeof(remote.bus_id) - 1] = '\0';
    const auto it = std::find_if(gpus.begin(), gpus.end(),
                                 [&remote](const inventory::Gpu& gpu) { return gpu.pci_bus_id == remote.bus_id; });
    if (it != gpus.end()) ++links[static_cast<std::size_t>(it - gpus.begin())];
  }
  return links;
}

}  // namespace

std::vector<inventory::GpuLink> read_links(const Library& library, const std::vector<Held>& held,
                                           const std::vector<inventory::Gpu>& gpus) {
  const Functions& f = library.functions();
  constexpr std::int32_t kSystem = 50;
  std::vector<inventory::GpuLink> links;
  for (std::uint32_t a = 0; a < held.size(); ++a) {
    const std::vector<std::uint32_t> direct =
        held.size() > 1 ? direct_links(f, held[a].device, gpus) : std::vector<std::uint32_t>{};
    for (std::uint32_t b = a + 1; b < held.size(); ++b) {
      std::int32_t level = kSystem;
      if (call(f.common_ancestor, held[a].device, held[b].device, &level) != Return::kSuccess) level = kSystem;
      links.push_back({a, b, level, direct[b]});
    }
  }
  return links;
}

}  // namespace tranche::host::nvml
