#pragma once
// Our own declarations of the part of the CUDA driver API that the probe calls. Nothing is linked: cuda_library.h looks
// the symbols up in libcuda.so.1 at run time. Same layout on every 64-bit Linux.
#include <cstddef>
#include <cstdint>

namespace tranche::probe {

using CudaDevice = int;
using CudaAddress = std::uint64_t;
using CudaContext = struct CudaContextHandle*;
using CudaModule = struct CudaModuleHandle*;
using CudaFunction = struct CudaFunctionHandle*;
using CudaStream = struct CudaStreamHandle*;

struct CudaUuid {
  unsigned char bytes[16];
};
static_assert(sizeof(CudaUuid) == 16);

inline constexpr int kCudaSuccess = 0;
inline constexpr int kCudaOutOfMemory = 2;

// CUdevice_attribute
inline constexpr int kAttributeMultiprocessors = 16;
inline constexpr int kAttributeComputeMode = 20;
inline constexpr int kAttributeCapabilityMajor = 75;
inline constexpr int kAttributeCapabilityMinor = 76;

// CUjit_option
inline constexpr int kJitErrorLogBuffer = 5;
inline constexpr int kJitErrorLogBufferBytes = 6;

}  // namespace tranche::probe
