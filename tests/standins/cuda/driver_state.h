#pragma once
// State shared by libcuda.so.1's entry points: the process's single CudaProcess, the allocated handles, and the current
// context of each thread. One per process, created by the first successful cuInit and never destroyed, like a driver's.
// Thread-safe: entry points hold `mutex` while they use the tables.
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "standins/cuda/cuda_process.h"
#include "standins/cuda/libcuda_abi.h"
#include "standins/cuda/sim_kernels.h"

struct SimContext {
  int device = 0;
};
struct SimModule {
  std::set<std::string> entries;
};
struct SimFunction {
  tranche::sim::KernelKind kind{};
};

namespace tranche::sim {

struct DeviceAllocation {
  std::uint64_t bytes = 0;    // as mapped
  std::uint64_t charged = 0;  // as accounted
  int device = 0;
};

struct DriverState {
  std::mutex mutex;
  std::unique_ptr<CudaProcess> process;
  std::set<SimContext*> contexts;
  std::map<std::uint64_t, DeviceAllocation> allocations;  // by first address
  std::set<SimModule*> modules;
  std::set<SimFunction*> functions;

  // The allocation that contains [address, address + bytes), or nullptr.
  const DeviceAllocation* holding(std::uint64_t address, std::uint64_t bytes) const;
};

DriverState& driver_state();
int code(CudaError error);

// The current context of this thread; nullptr = none. Only valid with driver_state().mutex held.
SimContext*& current_context();

// The beginning of nearly every entry point: returns kNotInitialized, the sticky error, kInvalidContext, or kSuccess
// and *device.
CudaError enter(const DriverState& state, int* device);

}  // namespace tranche::sim
