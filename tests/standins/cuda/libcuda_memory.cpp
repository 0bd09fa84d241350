// Memory of the libcuda.so.1 stand-in: device memory is host memory without reservation, charged to the simulated GPU.
#include <sys/mman.h>

#include <cstring>

#include "standins/cuda/driver_state.h"

using namespace tranche::sim;

namespace {

constexpr std::uint64_t kPiece = 2ull << 20;  // the driver allocates memory in pieces of 2 MiB …
constexpr std::uint64_t kSmall = 1ull << 20;  // … of which small requests share one
constexpr std::uint64_t kPage = 4096;

std::uint64_t rounded_up(std::uint64_t bytes, std::uint64_t to) {
  return (bytes + to - 1) / to * to;
}

// Waits for the device (these calls are synchronous) and checks the range.
CudaError ready_to_touch(DriverState& state, CudaAddress address, std::size_t bytes) {
  int device = 0;
  {
    const std::lock_guard lock(state.mutex);
    if (const CudaError error = enter(state, &device); error != CudaError::kSuccess) return error;
    if (state.holding(address, bytes) == nullptr) return CudaError::kInvalidValue;
  }
  return state.process->synchronize(device);
}

}  // namespace

int cuMemGetInfo_v2(std::size_t* free_bytes, std::size_t* total_bytes) {
  auto& state = driver_state();
  const std::lock_guard lock(state.mutex);
  int device = 0;
  if (const CudaError error = enter(state, &device); error != CudaError::kSuccess) return code(error);
  MemoryInfo info;
  const CudaError error = state.process->memory_info(device, &info);
  *free_bytes = info.free;
  *total_bytes = info.total;
  return code(error);
}

int cuMemAlloc_v2(CudaAddress* address, std::size_t bytes) {
  auto& state = driver_state();
  const std::lock_guard lock(state.mutex);
  int device = 0;
  if (const CudaError error = enter(state, &device); error != CudaError::kSuccess) return code(error);
  if (bytes == 0 || address == nullptr) return code(CudaError::kInvalidValue);
  if (bytes > (1ull << 46)) return code(CudaError::kOutOfMemory);
  const std::uint64_t charged = bytes < kSmall ? rounded_up(bytes, 512) : rounded_up(bytes, kPiece);
  if (const CudaError error = state.process->allocate(device, charged); error != CudaError::kSuccess)
    return code(error);
  const std::uint64_t mapped = rounded_up(charged, kPage);
  void* memory = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    state.process->release(device, charged);
    return code(CudaError::kOutOfMemory);
  }
  *address = reinterpret_cast<CudaAddress>(memory);
  state.allocations[*address] = {.bytes = mapped, .charged = charged, .device = device};
  return 0;
}

int cuMemFree_v2(CudaAddress address) {
  auto& state = driver_state();
  const std::lock_guard lock(state.mutex);
  if (!state.process) return code(CudaError::kNotInitialized);
  const auto found = state.allocations.find(address);
  if (found == state.allocations.end()) return code(CudaError::kInvalidValue);
  state.process->release(found->second.device, found->second.charged);
  ::munmap(reinterpret_cast<void*>(address), found->second.bytes);
  state.allocations.erase(found);
  return code(state.process->sticky());
}

int cuMemcpyDtoH_v2(void* to, CudaAddress from, std::size_t bytes) {
  const CudaError error = ready_to_touch(driver_state(), from, bytes);
  if (error == CudaError::kSuccess) std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
  return code(error);
}

int cuMemsetD8_v2(CudaAddress to, unsigned char value, std::size_t count) {
  const CudaError error = ready_to_touch(driver_state(), to, count);
  if (error == CudaError::kSuccess) std::memset(reinterpret_cast<void*>(to), value, count);
  return code(error);
}
