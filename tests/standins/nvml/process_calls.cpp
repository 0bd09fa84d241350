// Processes on a GPU. Under MPS the compute list contains the server and its clients, the MPS list only the clients,
// and the utilisation of all of them is attributed to the server.
#include <algorithm>
#include <vector>

#include "session.h"

namespace tranche::sim::nvml {
namespace {

std::vector<ProcessRow> rows_of(const Call& call) {
  std::vector<ProcessRow> rows = call.node().processes(call.index());
  if (!call.is_mig()) return rows;
  std::erase_if(rows, [&call](const ProcessRow& row) {
    return row.gpu_instance != call.gi().id || row.compute_instance != call.ci().id;
  });
  return rows;
}

bool is_compute(const ProcessRow& row) {
  return row.kind != ProcessKind::kGraphics;
}
bool is_graphics(const ProcessRow& row) {
  return row.kind == ProcessKind::kGraphics;
}
bool is_mps_client(const ProcessRow& row) {
  return row.kind == ProcessKind::kMpsClient;
}

template <class Info, class Wanted>
Return list(std::string_view name, Device device, u32* count, Info* infos, Wanted wanted) {
  return answer(name, device, Accept::kGpuOrMig, count, [&](const Call& call, u32& out) -> Return {
    std::vector<ProcessRow> rows = rows_of(call);
    std::erase_if(rows, [&](const ProcessRow& row) { return !wanted(row); });
    return put_array(rows, &out, infos, [](const ProcessRow& row) {
      Info info{};
      info.pid = static_cast<u32>(row.pid);
      info.used_gpu_memory = row.bytes;
      if constexpr (requires { info.gpu_instance_id; }) {
        info.gpu_instance_id = row.gpu_instance;
        info.compute_instance_id = row.compute_instance;
      }
      return info;
    });
  });
}

bool in_mode(const ProcessRow& row, u32 mode) {
  constexpr u32 kCompute = 0, kGraphics = 1, kMps = 2;
  if (mode == kCompute) return is_compute(row);
  if (mode == kGraphics) return is_graphics(row);
  return mode != kMps || is_mps_client(row);
}

}  // namespace

NVML Return nvmlDeviceGetComputeRunningProcesses(Device device, u32* count, ProcessInfoV1* infos) {
  return list(__func__, device, count, infos, is_compute);
}
NVML Return nvmlDeviceGetComputeRunningProcesses_v2(Device device, u32* count, ProcessInfoV2* infos) {
  return list(__func__, device, count, infos, is_compute);
}
NVML Return nvmlDeviceGetComputeRunningProcesses_v3(Device device, u32* count, ProcessInfoV2* infos) {
  return list(__func__, device, count, infos, is_compute);
}
NVML Return nvmlDeviceGetGraphicsRunningProcesses(Device device, u32* count, ProcessInfoV1* infos) {
  return list(__func__, device, count, infos, is_graphics);
}
NVML Return nvmlDeviceGetGraphicsRunningProcesses_v2(Device device, u32* count, ProcessInfoV2* infos) {
  return list(__func__, device, count, infos, is_graphics);
}
NVML Return nvmlDeviceGetGraphicsRunningProcesses_v3(Device device, u32* count, ProcessInfoV2* infos) {
  return list(__func__, device, count, infos, is_graphics);
}
NVML Return nvmlDeviceGetMPSComputeRunningProcesses(Device device, u32* count, ProcessInfoV1* infos) {
  return list(__func__, device, count, infos, is_mps_client);
}
NVML Return nvmlDeviceGetMPSComputeRunningProcesses_v2(Device device, u32* count, ProcessInfoV2* infos) {
  return list(__func__, device, count, infos, is_mps_client);
}
NVML Return nvmlDeviceGetMPSComputeRunningProcesses_v3(Device device, u32* count, ProcessInfoV2* infos) {
  return list(__func__, device, count, infos, is_mps_client);
}

NVML Return nvmlDeviceGetRunningProcessDetailList(Device device, ProcessDetailList* details) {
  constexpr u32 kModes = 4;
  return answer_versioned(__func__, device, Accept::kGpuOrMig, details, version_of<ProcessDetailList>(1),
                          [](const Call& call, ProcessDetailList& out) -> Return {
                            if (out.mode >= kModes) return kInvalidArgument;
                            if (call.profile().architecture < kHopper) return kNotSupported;
                            std::vector<ProcessRow> rows = rows_of(call);
                            std::erase_if(rows, [&out](const ProcessRow& row) { return !in_mode(row, out.mode); });
                            return put_array(rows, &out.entry_count, out.entries, [](const ProcessRow& row) {
                              return ProcessDetail{static_cast<u32>(row.pid), row.bytes, row.gpu_instance,
                                                   row.compute_instance, 0};
                            });
                          });
}

}  // namespace tranche::sim::nvml
