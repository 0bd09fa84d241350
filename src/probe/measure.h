#pragma once
// The measurements of the probe on an existing context: which SMs, right answers, speed, memory. One thread.
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "probe/cuda_library.h"
#include "probe/probe.h"

namespace tranche::probe {

// Device memory that goes with its object.
class DeviceMemory {
 public:
  static Result<DeviceMemory> allocate(const CudaLibrary& cuda, std::size_t bytes);
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&&) = delete;
  ~DeviceMemory();
  CudaAddress address() const { return address_; }
  Result<std::vector<std::uint32_t>> read(std::size_t words) const;

 private:
  DeviceMemory(const CudaLibrary& cuda, CudaAddress address) : cuda_(&cuda), address_(address) {}
  const CudaLibrary* cuda_;
  CudaAddress address_;
};

struct Kernels {
  CudaFunction fill = nullptr;
  CudaFunction spin = nullptr;
  CudaFunction smid = nullptr;
  CudaFunction tensor = nullptr;  // null: not asked for
};

Status check_answers(const CudaLibrary& cuda, const Kernels& kernels, ProbeReport& report);
Status count_sms(const CudaLibrary& cuda, const Kernels& kernels, ProbeReport& report);
Status measure_throughput(const CudaLibrary& cuda, const Kernels& kernels, const ProbeOptions& options,
                          ProbeReport& report);
Status find_largest_allocation(const CudaLibrary& cuda, ProbeReport& report);

}  // namespace tranche::probe
