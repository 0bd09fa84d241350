#include "standins/cuda/driver_state.h"

namespace tranche::sim {

DriverState& driver_state() {
  static DriverState* const state = new DriverState;  // outlives every thread, like the driver's
  return *state;
}

int code(CudaError error) {
  return static_cast<int>(error);
}

SimContext*& current_context() {
  thread_local SimContext* context = nullptr;
  return context;
}

CudaError enter(const DriverState& state, int* device) {
  if (!state.process) return CudaError::kNotInitialized;
  const SimContext* context = current_context();
  if (context == nullptr) return CudaError::kInvalidContext;
  *device = context->device;
  return CudaError::kSuccess;
}

const DeviceAllocation* DriverState::holding(std::uint64_t address, std::uint64_t bytes) const {
  auto after = allocations.upper_bound(address);
  if (after == allocations.begin()) return nullptr;
  const auto& [first, allocation] = *--after;
  const std::uint64_t offset = address - first;
  return offset <= allocation.bytes && bytes <= allocation.bytes - offset ? &allocation : nullptr;
}

}  // namespace tranche::sim
