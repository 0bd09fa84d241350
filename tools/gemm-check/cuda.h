#pragma once
// What the tool uses of the probe: the CUDA driver library, device memory, and compiled PTX.
#include "probe/cuda_library.h"

namespace tranche::gemm_check {

using probe::compile;
using probe::CudaAddress;
using probe::CudaFunction;
using probe::CudaLibrary;
using probe::CudaModule;
using probe::DeviceMemory;
using probe::find_kernel;
using probe::kCudaOutOfMemory;
using probe::kCudaSuccess;

}  // namespace tranche::gemm_check
