// Processes on a GPU. Under MPS the compute list contains the server and its clients, the MPS list only the clients.
#include <utility>
#include <vector>

#include "session.h"

namespace tranche::sim::nvml {
namespace {

enum class Listed { kAll, kMpsClients };

template <class Info>
Return list(std::string_view name, Device device, u32* count, Info* infos, Listed listed) {
  return answer(name, device, Accept::kGpuOrMig, count, [&](const Call& call, u32& out) -> Return {
    std::vector<ProcessRow> rows = call.node().processes(call.index());
    std::erase_if(rows, [&](const ProcessRow& row) {
      const bool elsewhere =
          call.is_mig() && (row.gpu_instance != call.gi().id || row.compute_instance != call.ci().id);
      return elsewhere || (listed == Listed::kMpsClients && row.kind != ProcessKind::kMpsClient);
    });
    // `count` is the available space on input and the number of entries on output.
    const u32 room = std::exchange(out, static_cast<u32>(rows.size()));
    if (rows.size() > room) return kInsufficientSize;
    if (!rows.empty() && infos == nullptr) return kInvalidArgument;
    for (const ProcessRow& row : rows) {
      Info& info = *infos++;
      info = {};
      info.pid = static_cast<u32>(row.pid);
      info.used_gpu_memory = row.bytes;
      if constexpr (requires { info.gpu_instance_id; }) {
        info.gpu_instance_id = row.gpu_instance;
        info.compute_instance_id = row.compute_instance;
      }
    }
    return kSuccess;
  });
}

}  // namespace

NVML Return nvmlDeviceGetComputeRunningProcesses(Device device, u32* count, ProcessInfoV1* infos) {
  return list(__func__, device, count, infos, Listed::kAll);
}
NVML Return nvmlDeviceGetComputeRunningProcesses_v2(Device device, u32* count, ProcessInfoV2* infos) {
  return list(__func__, device, count, infos, Listed::kAll);
}
NVML Return nvmlDeviceGetComputeRunningProcesses_v3(Device device, u32* count, ProcessInfoV2* infos) {
  return list(__func__, device, count, infos, Listed::kAll);
}
NVML Return nvmlDeviceGetMPSComputeRunningProcesses(Device device, u32* count, ProcessInfoV1* infos) {
  return list(__func__, device, count, infos, Listed::kMpsClients);
}
NVML Return nvmlDeviceGetMPSComputeRunningProcesses_v2(Device device, u32* count, ProcessInfoV2* infos) {
  return list(__func__, device, count, infos, Listed::kMpsClients);
}
NVML Return nvmlDeviceGetMPSComputeRunningProcesses_v3(Device device, u32* count, ProcessInfoV2* infos) {
  return list(__func__, device, count, infos, Listed::kMpsClients);
}

}  // namespace tranche::sim::nvml
