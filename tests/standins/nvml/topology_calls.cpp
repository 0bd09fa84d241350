// The topology of GPUs and CPUs.
#include <vector>

#include "telemetry.h"

namespace tranche::sim::nvml {
namespace {

u32 ancestor(const Call& call, int other) {
  const GpuState far = call.node().gpu_state(other);
  return topology_ancestor(call.node().topology(), call.index(), other, call.gpu().slot.numa, far.slot.numa);
}

bool nvlinked(const Call& call, int other) {
  if (!links_in_use(call)) return false;
  const LinkWeb web = topology_links(call.node().topology());
  if (web == LinkWeb::kSwitchVisible || web == LinkWeb::kSwitchHidden) return true;
  const int gpus = static_cast<int>(call.node().gpus().size());
  for (u32 link = 0; link < call.profile().nvlink_count; ++link) {
    if (link_active(call, link) && topology_link_peer(web, call.index(), link, gpus) == other) return true;
  }
  return false;
}

// Checks both handles, like the two-device calls.
template <class Out, class Fill>
Return between(std::string_view name, Device a, Device b, Out* out, Fill fill) {
  return answer(name, a, Accept::kGpu, out, [&](const Call& first, Out& into) -> Return {
    const Call second(name, b, Accept::kGpu);
    return second.refusal() != kSuccess ? second.refusal() : fill(first, second.index(), into);
  });
}

Return cpu_mask(std::string_view name, Device device, u32 words, unsigned long* mask, bool memory) {
  return answer(name, device, Accept::kGpu, mask, [=](const Call& call, unsigned long& first) {
    if (words == 0) return kInvalidArgument;
    const std::int32_t numa = call.gpu().slot.numa;
    auto bits = topology_cpus(call.node().topology(), numa, words);
    if (memory) {
      bits.assign(words, 0);
      const u32 node = numa < 0 ? 0 : static_cast<u32>(numa);
      if (node / 64 < words) bits[node / 64] = std::uint64_t{1} << (node % 64);
    }
    for (u32 i = 0; i < words; ++i) (&first)[i] = bits[i];
    return kSuccess;
  });
}

}  // namespace

NVML Return nvmlDeviceGetTopologyCommonAncestor(Device a, Device b, u32* level) {
  return between(__func__, a, b, level, [](const Call& call, int other, u32& out) {
    out = ancestor(call, other);
    return kSuccess;
  });
}

NVML Return nvmlDeviceGetTopologyNearestGpus(Device device, u32 level, u32* count, Device* devices) {
  return answer(__func__, device, Accept::kGpu, count, [=](const Call& call, u32& out) -> Return {
    if (level > 50 || level % 10 != 0) return kInvalidArgument;
    std::vector<Device> near;
    for (const int i : session_gpus()) {
      if (i != call.index() && ancestor(call, i) == level) near.push_back(gpu_handle(i));
    }
    if (out == 0) {  // the first of two calls queries the number
      out = static_cast<u32>(near.size());
      return kSuccess;
    }
    return put_array(near, &out, devices, [](Device found) { return found; });
  });
}

NVML Return nvmlDeviceGetP2PStatus(Device a, Device b, u32 index, u32* status) {
  return between(__func__, a, b, status, [index](const Call& call, int other, u32& out) {
    constexpr u32 kOk = 0, kChipset = 1, kNotOffered = 5;
    constexpr u32 kNvlink = 2, kAtomics = 3, kIndices = 5, kHostBridge = 30;
    if (index >= kIndices || other == call.index()) return kInvalidArgument;
    const bool linked = nvlinked(call, other);
    if (index == kNvlink || index == kAtomics) {
      out = linked ? kOk : kNotOffered;
    } else {
      out = linked || ancestor(call, other) <= kHostBridge ? kOk : kChipset;
    }
    return kSuccess;
  });
}

NVML Return nvmlDeviceGetCpuAffinity(Device device, u32 words, unsigned long* mask) {
  return cpu_mask(__func__, device, words, mask, false);
}
NVML Return nvmlDeviceGetCpuAffinityWithinScope(Device device, u32 words, unsigned long* mask, u32 scope) {
  if (scope > 1) return kInvalidArgument;
  return cpu_mask(__func__, device, words, mask, false);
}
NVML Return nvmlDeviceGetMemoryAffinity(Device device, u32 words, unsigned long* mask, u32 scope) {
  if (scope > 1) return kInvalidArgument;
  return cpu_mask(__func__, device, words, mask, true);
}

// The GPU's own memory is a NUMA node only on coherent platforms, none of which is simulated.
NVML Return nvmlDeviceGetNumaNodeId(Device device, u32* node) {
  return answer(__func__, device, Accept::kGpu, node, [](const Call&, u32&) { return kNotSupported; });
}

}  // namespace tranche::sim::nvml
