// Memory and utilisation of a GPU or a MIG device.
#include <algorithm>

#include "session.h"

namespace tranche::sim::nvml {
namespace {

struct Amounts {
  u64 total = 0, reserved = 0, used = 0;  // used contains reserved
};

Amounts amounts(const Call& call) {
  if (!call.is_mig()) {
    return {call.profile().memory_total, call.profile().memory_reserved, call.node().memory_used(call.index())};
  }
  Amounts own{u64{call.gi_profile().memory_mib} << 20, 0, 0};
  for (const ProcessRow& row : call.node().processes(call.index())) {
    if (row.gpu_instance == call.gi().id) own.used += row.bytes;
  }
  own.used = std::min(own.used, own.total);
  return own;
}

}  // namespace

NVML Return nvmlDeviceGetMemoryInfo(Device device, Memory* memory) {
  return answer(__func__, device, Accept::kGpuOrMig, memory, [](const Call& call, Memory& out) {
    const Amounts now = amounts(call);
    out = {now.total, now.total - now.used, now.used};
  });
}

NVML Return nvmlDeviceGetMemoryInfo_v2(Device device, MemoryV2* memory) {
  return answer_versioned(__func__, device, Accept::kGpuOrMig, memory, version_of<MemoryV2>(2),
                          [](const Call& call, MemoryV2& out) {
                            const Amounts now = amounts(call);
                            out.total = now.total;
                            out.reserved = now.reserved;
                            out.free = now.total - now.used;
                            out.used = now.used - std::min(now.reserved, now.used);
                          });
}

NVML Return nvmlDeviceGetUtilizationRates(Device device, Utilization* rates) {
  return answer(__func__, device, Accept::kGpuOrMig, rates, [](const Call& call, Utilization& out) {
    if (call.mig_on()) return kNotSupported;
    out = {call.gpu().utilization, call.gpu().memory_utilization};
    return kSuccess;
  });
}

}  // namespace tranche::sim::nvml
