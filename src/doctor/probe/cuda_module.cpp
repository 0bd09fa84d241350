#include "doctor/probe/cuda_module.h"

#include <array>
#include <string>

#include "base/text.h"

namespace tranche::probe {

Result<CudaModule> compile(const CudaLibrary& cuda, const char* ptx) {
  CudaModule module = nullptr;
  const CudaFunctions& f = cuda.functions();
  std::array<char, 2048> log{};
  int code = kCudaSuccess;
  if (f.module_load_with_options != nullptr) {
    std::array<int, 2> options{kJitErrorLogBuffer, kJitErrorLogBufferBytes};
    std::array<void*, 2> values{log.data(), reinterpret_cast<void*>(log.size() - 1)};
    code = f.module_load_with_options(&module, ptx, 2, options.data(), values.data());
  } else {
    code = f.module_load(&module, ptx);
  }
  if (code == kCudaSuccess) return module;
  Error error = cuda.error(code, "the probe's kernels do not compile", "cuModuleLoadData");
  if (log[0] != '\0') error.what += std::string(" (") + std::string(trimmed(log.data())) + ")";
  return std::unexpected(std::move(error));
}

Result<CudaFunction> find_kernel(const CudaLibrary& cuda, CudaModule module, const char* name) {
  CudaFunction function = nullptr;
  const int code = cuda.functions().module_function(&function, module, name);
  if (code != kCudaSuccess) return std::unexpected(cuda.error(code, "a kernel is missing", name));
  return function;
}

}  // namespace tranche::probe
