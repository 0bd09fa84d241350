// NVLinks and the switch fabric.
#include <cstring>

#include "telemetry.h"

namespace tranche::sim::nvml {
namespace {

template <class Out, class Fill>
Return link_answer(std::string_view name, Device device, u32 link, Out* out, Fill fill) {
  return answer(name, device, Accept::kGpu, out, [&](const Call& call, Out& into) -> Return {
    if (!links_in_use(call)) return kNotSupported;
    if (link >= call.profile().nvlink_count) return kInvalidArgument;
    return fill(call, into);
  });
}

int peer_of(const Call& call, u32 link) {
  return topology_link_peer(topology_links(call.node().topology()), call.index(), link,
                            static_cast<int>(call.node().gpus().size()));
}

void put_address(PciInfo& pci, u32 domain, u32 bus, u32 device, const char* legacy, std::string_view text) {
  pci.domain = domain;
  pci.bus = bus;
  pci.device = device;
  put_text(legacy, pci.bus_id_legacy);
  put_text(text, pci.bus_id);
}

// If the driver does not know the other end, it reports all ones.
void put_hidden(PciInfo& pci) {
  put_address(pci, 0xffffffff, 0xff, 0xff, "FFFF:FF:FF.0", "FFFFFFFF:FF:FF.0");
}

Return remote_pci(std::string_view name, Device device, u32 link, PciInfo* pci) {
  return link_answer(name, device, link, pci, [link](const Call& call, PciInfo& out) {
    if (!link_active(call, link)) return kInvalidArgument;
    out = {};
    const LinkWeb web = topology_links(call.node().topology());
    if (web == LinkWeb::kSwitchHidden) {
      put_hidden(out);
    } else if (web == LinkWeb::kSwitchVisible) {
      constexpr u32 kSwitchId = 0x22A310DE, kSwitchIdAmpere = 0x1AF110DE;
      const u32 bus = topology_link_switch(link, call.profile().nvlink_count);
      const char digits[] = "0123456789ABCDEF";
      const std::string two{digits[bus >> 4 & 15], digits[bus & 15]};
      put_address(out, 0, bus, 0, ("0000:" + two + ":00.0").c_str(), "00000000:" + two + ":00.0");
      out.pci_device_id = call.profile().architecture >= kHopper ? kSwitchId : kSwitchIdAmpere;
    } else {
      const GpuState far = call.node().gpu_state(peer_of(call, link));
      const std::string id = far.bus_id.str();
      put_address(out, far.slot.domain, far.slot.bus, far.slot.device, id.substr(4).c_str(), id);
      out.pci_device_id = far.profile.pci_device_id << 16 | 0x10DE;
    }
    return kSuccess;
  });
}

// The node agents' queries: whether the GPU has joined an NVSwitch fabric, which one, and its health.
struct Fabric {
  u8 state = 0;
  u32 health_mask = 0;
  u8 health_summary = 0;
};
Fabric fabric_of(const Call& call) {
  constexpr u8 kCompleted = 3, kHealthy = 1;
  constexpr u32 kAllWell = 2 | 2 << 2 | 2 << 4 | 2 << 6 | 1 << 8 | 1 << 12;
  const LinkWeb web = topology_links(call.node().topology());
  const bool switched = web == LinkWeb::kSwitchVisible || web == LinkWeb::kSwitchHidden;
  if (call.profile().fabric == 0 || !switched) return {};
  return {kCompleted, kAllWell, kHealthy};
}

template <class Info>
void fill_fabric(const Call& call, Info& out) {
  const Fabric fabric = fabric_of(call);
  std::memset(out.cluster_uuid, 0, sizeof(out.cluster_uuid));  // a single node belongs to no NVLink domain
  out.status = kSuccess;
  out.clique_id = 0;
  out.state = fabric.state;
  if constexpr (requires { out.health_mask; }) out.health_mask = fabric.health_mask;
  if constexpr (requires { out.health_summary; }) out.health_summary = fabric.health_summary;
}

}  // namespace

bool links_in_use(const Call& call) {
  return call.profile().nvlink_count > 0 && topology_links(call.node().topology()) != LinkWeb::kNone;
}

bool link_active(const Call& call, u32 link) {
  if ((call.gpu().dead_links >> link & 1) != 0) return false;
  const LinkWeb web = topology_links(call.node().topology());
  return web == LinkWeb::kSwitchVisible || web == LinkWeb::kSwitchHidden || peer_of(call, link) >= 0;
}

NVML Return nvmlDeviceGetNvLinkState(Device device, u32 link, u32* active) {
  return link_answer(__func__, device, link, active, [link](const Call& call, u32& out) {
    out = link_active(call, link) ? 1 : 0;
    return kSuccess;
  });
}

NVML Return nvmlDeviceGetNvLinkRemotePciInfo(Device device, u32 link, PciInfo* pci) {
  return remote_pci(__func__, device, link, pci);
}
NVML Return nvmlDeviceGetNvLinkRemotePciInfo_v2(Device device, u32 link, PciInfo* pci) {
  return remote_pci(__func__, device, link, pci);
}

NVML Return nvmlDeviceGetNvLinkRemoteDeviceType(Device device, u32 link, u32* type) {
  return link_answer(__func__, device, link, type, [link](const Call& call, u32& out) {
    constexpr u32 kGpu = 0, kSwitch = 2;
    if (!link_active(call, link)) return kInvalidArgument;
    out = peer_of(call, link) >= 0 ? kGpu : kSwitch;
    return kSuccess;
  });
}

NVML Return nvmlDeviceGetGpuFabricInfo(Device device, FabricInfo* info) {
  return answer(__func__, device, Accept::kGpu, info,
                [](const Call& call, FabricInfo& out) { fill_fabric(call, out); });
}

// Writes exactly as many bytes as the caller's version has.
NVML Return nvmlDeviceGetGpuFabricInfoV(Device device, void* info) {
  const Call call(__func__, device, Accept::kGpu);
  if (call.refusal() != kSuccess) return call.refusal();
  if (info == nullptr) return kInvalidArgument;
  u32 version = 0;
  std::memcpy(&version, info, sizeof(version));
  if (version == version_of<FabricInfoV2>(2)) {
    fill_fabric(call, *static_cast<FabricInfoV2*>(info));
  } else if (version == version_of<FabricInfoV3>(3)) {
    fill_fabric(call, *static_cast<FabricInfoV3*>(info));
  } else {
    return kArgumentVersionMismatch;
  }
  return kSuccess;
}

}  // namespace tranche::sim::nvml
