#pragma once
// The check on an existing context. Kernels end within the time of one product; nothing is in flight when it returns.
// One thread.
#include <functional>

#include "gemm-check/cublas_library.h"
#include "gemm-check/cuda.h"
#include "gemm-check/gemm.h"

namespace tranche::gemm_check {

struct GemmContext {
  int capability_major = 0;
  int capability_minor = 0;
  std::uint32_t sms = 1;
  std::function<bool()> stop;                       // asked between products
  std::function<void(const char* stage)> on_stage;  // before each
};

// What can be checked is checked; what cannot says why in its case. An error is CUDA's: the context is of no more use.
Result<GemmReport> run_gemm(const CudaLibrary& cuda, const GemmOptions& options, const GemmContext& context);

}  // namespace tranche::gemm_check
