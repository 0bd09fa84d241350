#include "gpu/driver/processes.h"

#include <algorithm>
#include <cstring>
#include <map>

namespace tranche::gpu::nvml {
namespace {

constexpr std::uint32_t kUsual = 64;  // MPS serves 48 to 60 clients: one call is nearly always enough
constexpr std::uint32_t kSlack = 16;  // processes that may start between two calls
constexpr int kMostTries = 6;
constexpr std::size_t kDocumented = 24;  // bytes of an entry

}  // namespace

std::size_t stride_of(std::span<const std::byte> buffer, std::size_t count) {
  if (count == 0) return kDocumented;
  const auto last = std::find_if(buffer.rbegin(), buffer.rend(), [](std::byte b) { return b != kUnwritten; });
  const auto written = static_cast<std::size_t>(buffer.rend() - last);
  for (const std::size_t stride : {std::size_t{16}, std::size_t{24}, std::size_t{32}}) {
    if (written == stride * count) return stride;
  }
  return kDocumented;
}

std::vector<ProcessInfo> entries_of(std::span<const std::byte> buffer, std::size_t count, std::size_t stride) {
  std::vector<ProcessInfo> entries;
  entries.reserve(count);
  for (std::size_t i = 0; i < count && (i + 1) * stride <= buffer.size(); ++i) {
    ProcessInfo entry{0, kMemoryNotAvailable, kNoInstance, kNoInstance, kMemoryNotAvailable};
    std::memcpy(&entry, buffer.data() + i * stride, std::min(stride, sizeof(entry)));
    entries.push_back(entry);
  }
  return entries;
}

ProcessList list_processes(Return (*function)(Device, std::uint32_t*, void*), Device device) {
  ProcessList list;
  std::uint32_t capacity = kUsual;
  for (int attempt = 0; attempt < kMostTries; ++attempt) {
    std::vector<std::byte> buffer((capacity + 1) * sizeof(ProcessInfo), kUnwritten);
    std::uint32_t count = capacity;
    list.code = call(function, device, &count, static_cast<void*>(buffer.data()));
    if (list.code == Return::kInsufficientSize) {
      capacity = std::max(count, capacity) + kSlack;
      continue;
    }
    count = std::min(count, capacity);
    if (list.code == Return::kSuccess) list.entries = entries_of(buffer, count, stride_of(buffer, count));
    break;
  }
  return list;
}

Result<std::vector<GpuHolder>> read_processes(const Library& library, Device device) {
  const Functions& f = library.functions();
  const ProcessList all = list_processes(f.compute_processes, device);
  if (all.code == Return::kNotSupported || all.code == Return::kNoPermission) return std::vector<GpuHolder>{};
  TRY_STATUS(library.check(all.code, "cannot list the processes", "nvmlDeviceGetComputeRunningProcesses"));
  std::map<std::uint32_t, GpuHolder> by_pid;  // a process has one entry for each MIG instance that it uses
  const auto add = [&by_pid](const ProcessInfo& entry, bool mps_client) {
    const auto [it, fresh] = by_pid.try_emplace(entry.pid);
    GpuHolder& process = it->second;
    process.pid = static_cast<pid_t>(entry.pid);
    process.mps_client = process.mps_client || mps_client;
    if (mps_client && !fresh) return;  // its memory is in the compute list already
    if (entry.used_gpu_memory != kMemoryNotAvailable) process.memory.value += entry.used_gpu_memory;
  };
  for (const ProcessInfo& entry : all.entries) add(entry, false);
  for (const ProcessInfo& entry : list_processes(f.mps_processes, device).entries) add(entry, true);

  std::vector<GpuHolder> processes;
  processes.reserve(by_pid.size());
  for (const auto& [pid, process] : by_pid) processes.push_back(process);
  return processes;
}

}  // namespace tranche::gpu::nvml
