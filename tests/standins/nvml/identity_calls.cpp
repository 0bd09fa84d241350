// The identity of a GPU.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include "base/text.h"
#include "session.h"

namespace tranche::sim::nvml {
namespace {

template <class Text>
Return text_answer(std::string_view name, Device device, Accept accept, char* into, u32 length, Text text) {
  const Call call(name, device, accept);
  if (call.refusal() != kSuccess) return call.refusal();
  return copy_text(text(call), into, length);
}

std::string legacy_bus_id(const TopologySlot& slot) {
  char text[24];
  std::snprintf(text, sizeof(text), "%04X:%02X:%02X.0", slot.domain & 0xffff, slot.bus & 0xff, slot.device & 0xff);
  return text;
}

constexpr u32 kVendor = 0x10DE;
u32 packed_device(const GpuProfile& profile) {
  return profile.pci_device_id << 16 | kVendor;
}

void fill_pci(const Call& call, PciInfo& pci) {
  const TopologySlot& slot = call.gpu().slot;
  pci = {};
  put_text(legacy_bus_id(slot), pci.bus_id_legacy);
  pci.domain = slot.domain;
  pci.bus = slot.bus;
  pci.device = slot.device;
  pci.pci_device_id = packed_device(call.profile());
  pci.pci_subsystem_id = call.profile().pci_subsystem_id;
  put_text(call.gpu().bus_id.view(), pci.bus_id);
}

// The older calls do not write the bytes after their own fields: their structs are shorter.
Return old_pci(std::string_view name, Device device, PciInfo* into, std::size_t bytes) {
  return answer(name, device, Accept::kGpuOrMig, into, [bytes](const Call& call, PciInfo& out) {
    PciInfo whole;
    fill_pci(call, whole);
    std::memcpy(&out, &whole, bytes);
  });
}

template <class Number>
Return number(std::string_view name, Device device, u32* into, Number read) {
  return answer(name, device, Accept::kGpu, into, [&](const Call& call, u32& out) { out = read(call); });
}

}  // namespace

NVML Return nvmlDeviceGetUUID(Device device, char* text, u32 length) {
  return text_answer(__func__, device, Accept::kGpuOrMig, text, length,
                     [](const Call& call) { return call.is_mig() ? call.ci().uuid.str() : call.gpu().uuid.str(); });
}

NVML Return nvmlDeviceGetName(Device device, char* text, u32 length) {
  return text_answer(__func__, device, Accept::kGpuOrMig, text, length, [](const Call& call) {
    const std::string product = call.profile().name.str();
    return call.is_mig() ? product + " MIG " + mig_name(call.gi_profile(), call.ci().slices) : product;
  });
}

NVML Return nvmlDeviceGetSerial(Device device, char* text, u32 length) {
  return text_answer(__func__, device, Accept::kGpu, text, length,
                     [](const Call& call) { return call.gpu().serial.str(); });
}

NVML Return nvmlDeviceGetVbiosVersion(Device device, char* text, u32 length) {
  return text_answer(__func__, device, Accept::kGpu, text, length,
                     [](const Call& call) { return call.profile().vbios.str(); });
}

NVML Return nvmlDeviceGetIndex(Device device, u32* index) {
  return answer(__func__, device, Accept::kGpuOrMig, index, [](const Call& call, u32& out) {
    const auto gpus = session_gpus();
    const auto place = std::ranges::find(gpus, call.index()) - gpus.begin();
    out = call.is_mig() ? call.ci().index : static_cast<u32>(place);
  });
}

NVML Return nvmlDeviceGetMinorNumber(Device device, u32* minor) {
  return number(__func__, device, minor, [](const Call& call) { return call.gpu().minor; });
}

NVML Return nvmlDeviceGetBrand(Device device, u32* brand) {
  return answer(__func__, device, Accept::kGpuOrMig, brand,
                [](const Call& call, u32& out) { out = call.profile().brand; });
}

NVML Return nvmlDeviceGetPciInfo_v3(Device device, PciInfo* pci) {
  return answer(__func__, device, Accept::kGpuOrMig, pci, fill_pci);
}
NVML Return nvmlDeviceGetPciInfo_v2(Device device, PciInfo* pci) {
  return old_pci(__func__, device, pci, offsetof(PciInfo, bus_id));
}
NVML Return nvmlDeviceGetPciInfo(Device device, PciInfo* pci) {
  return old_pci(__func__, device, pci, offsetof(PciInfo, pci_subsystem_id));
}

NVML Return nvmlDeviceGetPciInfoExt(Device device, PciInfoExt* pci) {
  return answer_versioned(__func__, device, Accept::kGpuOrMig, pci, version_of<PciInfoExt>(1),
                          [](const Call& call, PciInfoExt& out) {
                            const TopologySlot& slot = call.gpu().slot;
                            out.domain = slot.domain;
                            out.bus = slot.bus;
                            out.device = slot.device;
                            out.pci_device_id = packed_device(call.profile());
                            out.pci_subsystem_id = call.profile().pci_subsystem_id;
                            out.base_class = call.profile().pci_class >> 16;
                            out.sub_class = call.profile().pci_class >> 8 & 0xff;
                            put_text(call.gpu().bus_id.view(), out.bus_id);
                          });
}

NVML Return nvmlDeviceGetArchitecture(Device device, u32* architecture) {
  return answer(__func__, device, Accept::kGpuOrMig, architecture,
                [](const Call& call, u32& out) { out = call.profile().architecture; });
}

NVML Return nvmlDeviceGetCudaComputeCapability(Device device, i32* major, i32* minor) {
  return answer(__func__, device, Accept::kGpuOrMig, major, [minor](const Call& call, i32& out) {
    if (minor == nullptr) return kInvalidArgument;
    out = call.profile().cc_major;
    *minor = call.profile().cc_minor;
    return kSuccess;
  });
}

NVML Return nvmlDeviceGetNumGpuCores(Device device, u32* cores) {
  return number(__func__, device, cores,
                [](const Call& call) { return call.profile().sm_count * call.profile().cores_per_sm; });
}

NVML Return nvmlDeviceGetVirtualizationMode(Device device, u32* mode) {
  return number(__func__, device, mode, [](const Call& call) {
    return call.node().topology().starts_with("vm") ? 1u : 0u;  // pass-through, or none
  });
}

NVML Return nvmlDeviceGetAddressingMode(Device device, OneValue* mode) {
  return answer_versioned(__func__, device, Accept::kGpu, mode, version_of<OneValue>(1),
                          [](const Call&, OneValue& out) { out.value = 0; });
}

}  // namespace tranche::sim::nvml
