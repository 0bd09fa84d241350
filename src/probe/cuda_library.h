#pragma once
// The CUDA driver library, opened at run time, and errors of it in words. It is never closed: its own threads may run
// until the process ends. One thread.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"

namespace tranche::probe {

// The part of the CUDA driver API that the probe calls; the same layout on every 64-bit Linux.
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
inline constexpr int kAttributeCapabilityMajor = 75;
inline constexpr int kAttributeCapabilityMinor = 76;

// CUjit_option
inline constexpr int kJitErrorLogBuffer = 5;
inline constexpr int kJitErrorLogBufferBytes = 6;

struct CudaFunctions {
  int (*init)(unsigned) = nullptr;
  int (*driver_version)(int*) = nullptr;
  int (*error_name)(int, const char**) = nullptr;
  int (*device_count)(int*) = nullptr;
  int (*device_get)(CudaDevice*, int) = nullptr;
  int (*device_name)(char*, int, CudaDevice) = nullptr;
  int (*device_uuid)(CudaUuid*, CudaDevice) = nullptr;
  int (*device_attribute)(int*, int, CudaDevice) = nullptr;
  int (*device_memory)(std::size_t*, CudaDevice) = nullptr;
  int (*context_create)(CudaContext*, unsigned, CudaDevice) = nullptr;
  int (*context_destroy)(CudaContext) = nullptr;
  int (*context_synchronize)() = nullptr;
  int (*memory_info)(std::size_t*, std::size_t*) = nullptr;
  int (*memory_allocate)(CudaAddress*, std::size_t) = nullptr;
  int (*memory_free)(CudaAddress) = nullptr;
  int (*memory_set)(CudaAddress, unsigned char, std::size_t) = nullptr;
  int (*copy_to_host)(void*, CudaAddress, std::size_t) = nullptr;
  int (*module_load)(CudaModule*, const void*) = nullptr;
  int (*module_load_with_options)(CudaModule*, const void*, unsigned, int*, void**) = nullptr;
  int (*module_function)(CudaFunction*, CudaModule, const char*) = nullptr;
  int (*launch)(CudaFunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CudaStream, void**,
                void**) = nullptr;
};

class CudaLibrary {
 public:
  static Result<std::unique_ptr<CudaLibrary>> open();  // "libcuda.so.1" through the loader
  const CudaFunctions& functions() const { return functions_; }
  const std::string& path() const { return path_; }
  std::string name_of(int code) const;  // "CUDA_ERROR_OUT_OF_MEMORY"

  // "CUDA context cannot be created: CUDA_ERROR_MPS_CONNECTION_FAILED: <meaning>; <remedy>".
  Error error(int code, std::string doing, std::string where) const;

 private:
  CudaFunctions functions_;
  std::string path_;
};

// GPU programs as PTX text, compiled by the driver. A module lives as long as its context.
Result<CudaModule> compile(const CudaLibrary& cuda, const char* ptx);  // the error holds the compiler's words
Result<CudaFunction> find_kernel(const CudaLibrary& cuda, CudaModule module, const char* name);

// What the driver's error numbers mean for the owner of a program that shares a GPU, and what to do about them
// (docs/reference/probe.md). Pure.
struct CudaErrorText {
  int code;
  Kind kind;
  const char* name;
  const char* meaning;
  const char* remedy;
};

const CudaErrorText* explain(int code);  // nullptr = nothing to say beyond its name
std::span<const CudaErrorText> all_explained();

}  // namespace tranche::probe
