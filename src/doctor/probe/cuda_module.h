#pragma once
// GPU programs as PTX text, compiled by the driver. A module lives as long as its context. One thread.
#include "base/result.h"
#include "doctor/probe/cuda_library.h"

namespace tranche::probe {

Result<CudaModule> compile(const CudaLibrary& cuda, const char* ptx);  // the error holds the compiler's words
Result<CudaFunction> find_kernel(const CudaLibrary& cuda, CudaModule module, const char* name);

}  // namespace tranche::probe
