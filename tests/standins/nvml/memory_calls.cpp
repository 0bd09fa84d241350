// Memory and utilisation of a GPU or a MIG device.
#include <algorithm>

#include "session.h"

namespace tranche::sim::nvml {
NVML Return nvmlDeviceGetMemoryInfo(Device device, Memory* memory) {
  return answer(__func__, device, Accept::kGpuOrMig, memory, [](const Call& call, Memory& out) {
    u64 total = call.profile().memory_total;
    u64 used = call.node().memory_used(call.index());
    if (call.is_mig()) {
      total = u64{call.gi_profile().memory_mib} << 20;
      used = 0;
      for (const ProcessRow& row : call.node().processes(call.index())) {
        if (row.gpu_instance == call.gi().id) used += row.bytes;
      }
      used = std::min(used, total);
    }
    out = {total, total - used, used};
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
