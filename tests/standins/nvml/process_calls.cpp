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

struct Usage {
  u32 pid = 0;
  u32 percent = 0;
};

std::vector<Usage> usages(const Call& call) {
  std::vector<Usage> found;
  const auto rows = call.node().processes(call.index());
  const auto server = std::ranges::find(rows, ProcessKind::kMpsServer, &ProcessRow::kind);
  Usage mps;
  for (const ProcessRow& row : rows) {
    if (row.utilization == 0) continue;
    if (server != rows.end() && row.kind != ProcessKind::kCompute && row.kind != ProcessKind::kGraphics) {
      mps.pid = static_cast<u32>(server->pid);
      mps.percent = std::min(100u, mps.percent + row.utilization);
    } else {
      found.push_back({static_cast<u32>(row.pid), row.utilization});
    }
  }
  if (mps.pid != 0) found.push_back(mps);
  return found;
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

NVML Return nvmlDeviceGetProcessUtilization(Device device, ProcessUtilizationSample* samples, u32* count,
                                            u64 last_seen) {
  return answer(__func__, device, Accept::kGpu, count, [=](const Call& call, u32& out) -> Return {
    if (call.mig_on()) return kNotSupported;
    const auto found = usages(call);
    const u64 now = now_us();
    if (found.empty() || last_seen >= now) return kNotFound;
    if (samples == nullptr) out = 0;  // a query of the number
    return put_array(found, &out, samples, [now](const Usage& usage) {
      return ProcessUtilizationSample{usage.pid, now, usage.percent, usage.percent / 2, 0, 0};
    });
  });
}

NVML Return nvmlDeviceGetProcessesUtilizationInfo(Device device, ProcessesUtilizationInfo* info) {
  return answer_versioned(__func__, device, Accept::kGpu, info, version_of<ProcessesUtilizationInfo>(1),
                          [](const Call& call, ProcessesUtilizationInfo& out) -> Return {
                            if (call.mig_on()) return kNotSupported;
                            const auto found = usages(call);
                            const u64 now = now_us();
                            if (found.empty() || out.last_seen >= now) return kNotFound;
                            if (out.entries == nullptr) out.count = 0;
                            return put_array(found, &out.count, out.entries, [now](const Usage& usage) {
                              return ProcessUtilizationInfo{now, usage.pid, usage.percent, usage.percent / 2, 0, 0,
                                                            0,   0};
                            });
                          });
}

NVML Return nvmlDeviceGetAccountingMode(Device device, u32* mode) {
  return answer(__func__, device, Accept::kGpu, mode, [](const Call&, u32& out) { out = 0; });
}
NVML Return nvmlDeviceGetAccountingBufferSize(Device device, u32* size) {
  return answer(__func__, device, Accept::kGpu, size, [](const Call&, u32& out) { out = 4000; });
}

}  // namespace tranche::sim::nvml
