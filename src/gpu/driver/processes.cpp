#include "gpu/driver/processes.h"

#include <algorithm>
#include <cstring>
#include <map>

namespace tranche::gpu::nvml {
namespace {

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

bool ProcessList::read(Call function, Device device) {
  Return code = Return::kSuccess;
  std::uint32_t count = 0;
  for (int attempt = 0; attempt < kMostTries; ++attempt) {
    buffer_.assign((capacity_ + 1) * sizeof(ProcessInfo), kUnwritten);
    count = capacity_;
    code = call(function, device, &count, static_cast<void*>(buffer_.data()));
    if (code != Return::kInsufficientSize) break;
    capacity_ = std::max(count, capacity_) + kSlack;
  }
  count = code == Return::kSuccess ? std::min(count, capacity_) : 0;
  if (code == code_ && count == count_ && (code != Return::kSuccess || buffer_ == seen_)) return false;
  code_ = code;
  count_ = count;
  seen_.swap(buffer_);
  entries_ = entries_of(seen_, count, stride_of(seen_, count));
  return true;
}

Result<std::vector<GpuHolder>> read_processes(const Library& library, Device device) {
  const Functions& f = library.functions();
  ProcessList all;
  all.read(f.compute_processes, device);
  if (all.code() == Return::kNotSupported || all.code() == Return::kNoPermission) return std::vector<GpuHolder>{};
  TRY_STATUS(library.check(all.code(), "cannot list the processes", "nvmlDeviceGetComputeRunningProcesses"));
  std::map<std::uint32_t, GpuHolder> by_pid;  // a process has one entry for each MIG instance that it uses
  const auto add = [&by_pid](const ProcessInfo& entry, bool mps_client) {
    const auto [it, fresh] = by_pid.try_emplace(entry.pid);
    GpuHolder& process = it->second;
    process.pid = entry.pid;
    process.mps_client = process.mps_client || mps_client;
    if (mps_client && !fresh) return;  // its memory is in the compute list already
    if (entry.used_gpu_memory != kMemoryNotAvailable) process.memory.value += entry.used_gpu_memory;
  };
  for (const ProcessInfo& entry : all.entries()) add(entry, false);
  ProcessList clients;
  clients.read(f.mps_processes, device);
  for (const ProcessInfo& entry : clients.entries()) add(entry, true);

  std::vector<GpuHolder> processes;
  processes.reserve(by_pid.size());
  for (const auto& [pid, process] : by_pid) processes.push_back(process);
  return processes;
}

}  // namespace tranche::gpu::nvml
