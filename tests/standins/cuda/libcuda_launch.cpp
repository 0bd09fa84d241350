// Modules and kernels of the libcuda.so.1 stand-in. A device has one timeline; streams share it.
#include <algorithm>
#include <string_view>

#include "standins/cuda/driver_state.h"

using namespace tranche::sim;

namespace {

// The names after ".entry" in PTX text.
std::set<std::string> entries_of(std::string_view ptx) {
  constexpr std::string_view kEntry = ".entry";
  constexpr std::string_view kSpace = " \t\r\n";
  std::set<std::string> names;
  for (std::size_t at = ptx.find(kEntry); at != std::string_view::npos; at = ptx.find(kEntry, at)) {
    at = ptx.find_first_not_of(kSpace, at + kEntry.size());
    if (at == std::string_view::npos) break;
    const auto end = ptx.find_first_of(" \t\r\n(", at);
    names.emplace(ptx.substr(at, end - at));
  }
  return names;
}

}  // namespace

int cuModuleLoadData(CudaModuleHandle* module, const void* image) {
  auto& state = driver_state();
  const std::lock_guard lock(state.mutex);
  int device = 0;
  if (const CudaError error = enter(state, &device); error != CudaError::kSuccess) return code(error);
  if (const CudaError error = state.process->sticky(); error != CudaError::kSuccess) return code(error);
  if (module == nullptr || image == nullptr) return code(CudaError::kInvalidValue);
  const std::string_view text(static_cast<const char*>(image));  // PTX is text with a terminating NUL
  if (text.starts_with("\x7f"
                       "ELF"))
    return code(CudaError::kInvalidImage);  // machine code cannot be simulated
  if (text.find(".version") == std::string_view::npos) return code(CudaError::kInvalidPtx);
  auto made = std::make_unique<SimModule>(SimModule{entries_of(text)});
  state.modules.insert(made.get());
  *module = made.release();
  return 0;
}

int cuModuleLoadDataEx(CudaModuleHandle* module, const void* image, unsigned /*count*/, int* /*options*/,
                       void** /*values*/) {
  return cuModuleLoadData(module, image);
}

int cuModuleGetFunction(CudaFunctionHandle* function, CudaModuleHandle module, const char* name) {
  auto& state = driver_state();
  const std::lock_guard lock(state.mutex);
  if (!state.process) return code(CudaError::kNotInitialized);
  if (const CudaError error = state.process->sticky(); error != CudaError::kSuccess) return code(error);
  if (!state.modules.contains(module) || name == nullptr) return code(CudaError::kInvalidHandle);
  const auto kind = kernel_named(name);
  if (!kind || !module->entries.contains(name)) return code(CudaError::kNotFound);
  auto made = std::make_unique<SimFunction>(SimFunction{*kind});
  state.functions.insert(made.get());
  *function = made.release();
  return 0;
}

int cuLaunchKernel(CudaFunctionHandle function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                   unsigned block_y, unsigned block_z, unsigned /*shared_bytes*/, CudaStreamHandle /*stream*/,
                   void** parameters, void** /*extra*/) {
  auto& state = driver_state();
  const std::unique_lock lock(state.mutex);
  int device = 0;
  if (const CudaError error = enter(state, &device); error != CudaError::kSuccess) return code(error);
  if (const CudaError error = state.process->sticky(); error != CudaError::kSuccess) return code(error);
  if (!state.functions.contains(function)) return code(CudaError::kInvalidHandle);
  const std::uint64_t threads = std::uint64_t{block_x} * block_y * block_z;
  const std::uint64_t blocks = std::uint64_t{grid_x} * grid_y * grid_z;
  if (threads == 0 || threads > 1024 || blocks == 0 || blocks > UINT32_MAX || parameters == nullptr) {
    return code(CudaError::kInvalidValue);
  }
  KernelCall call = read_call(function->kind, parameters);
  call.blocks = blocks;
  call.threads_per_block = static_cast<std::uint32_t>(threads);
  const auto mapped = [&state](const Range& range) { return state.holding(range.address, range.bytes) != nullptr; };
  if (call.out % 4 != 0 || !std::ranges::all_of(touched(call), mapped)) {
    // The launch itself succeeds; the next call that waits returns the error, as do all other processes on the GPU.
    state.process->fault(device);
    return 0;
  }
  const std::uint32_t sms = state.process->sms(device);
  const CudaError error =
      state.process->launch(device, duration_ns(call, sms), 1, nullptr, call.kind == KernelKind::kTensor);
  compute(call, sms);  // a reader before the kernel's simulated end races, as on a GPU
  return code(error);
}
