#pragma once
// The CUDA driver library, opened at run time, and errors of it in words. It is never closed: its own threads may run
// until the process ends. One thread.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "os/library/shared_library.h"

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

// Each by its name, whose suffix is the ABI: an unsuffixed cuMemAlloc is the 32-bit one of CUDA 3.
struct CudaFunctions {
  explicit CudaFunctions(void* handle = nullptr) : library(handle) {}
  os::Symbol find(std::initializer_list<const char*> names) const { return os::find_symbol(library, names); }
  os::Symbol need(const char* name);

  void* library;         // this and `complete` come first: the look-ups below use both
  bool complete = true;  // false: it lacks one that is needed
  int (*init)(unsigned) = need("cuInit");
  int (*driver_version)(int*) = find({"cuDriverGetVersion"});
  int (*error_name)(int, const char**) = find({"cuGetErrorName"});
  int (*device_count)(int*) = need("cuDeviceGetCount");
  int (*device_get)(CudaDevice*, int) = need("cuDeviceGet");
  int (*device_name)(char*, int, CudaDevice) = need("cuDeviceGetName");
  int (*device_uuid)(CudaUuid*, CudaDevice) = find({"cuDeviceGetUuid_v2", "cuDeviceGetUuid"});
  int (*device_attribute)(int*, int, CudaDevice) = need("cuDeviceGetAttribute");
  int (*device_memory)(std::size_t*, CudaDevice) = need("cuDeviceTotalMem_v2");
  int (*context_create)(CudaContext*, unsigned, CudaDevice) = need("cuCtxCreate_v2");
  int (*context_destroy)(CudaContext) = need("cuCtxDestroy_v2");
  int (*context_synchronize)() = need("cuCtxSynchronize");
  int (*memory_info)(std::size_t*, std::size_t*) = need("cuMemGetInfo_v2");
  int (*memory_allocate)(CudaAddress*, std::size_t) = need("cuMemAlloc_v2");
  int (*memory_free)(CudaAddress) = need("cuMemFree_v2");
  int (*memory_set)(CudaAddress, unsigned char, std::size_t) = find({"cuMemsetD8_v2"});
  int (*copy_to_host)(void*, CudaAddress, std::size_t) = need("cuMemcpyDtoH_v2");
  int (*module_load)(CudaModule*, const void*, unsigned, int*, void**) = need("cuModuleLoadDataEx");
  int (*module_function)(CudaFunction*, CudaModule, const char*) = need("cuModuleGetFunction");
  int (*launch)(CudaFunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CudaStream, void**,
                void**) = need("cuLaunchKernel");
};

class CudaLibrary {
 public:
  static Result<std::unique_ptr<CudaLibrary>> open();  // "libcuda.so.1" through the loader
  const CudaFunctions& functions() const { return functions_; }
  const std::string& path() const { return path_; }
  std::string name_of(int code) const;  // "CUDA_ERROR_OUT_OF_MEMORY"

  // "CUDA context cannot be created: CUDA_ERROR_MPS_CONNECTION_FAILED: <meaning>; <remedy>".
  Error error(int code, std::string doing, std::string where) const;
  Status check(int code, std::string_view doing,
               std::string_view where) const;  // this error, unless `code` is kCudaSuccess

 private:
  CudaFunctions functions_;
  std::string path_;
};

// Device memory that goes with its object.
class DeviceMemory {
 public:
  static Result<DeviceMemory> allocate(const CudaLibrary& cuda, std::size_t bytes);
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&&) = delete;
  ~DeviceMemory();
  CudaAddress address() const { return address_; }
  Result<std::vector<std::uint32_t>> read(std::size_t words) const;

 private:
  DeviceMemory(const CudaLibrary& cuda, CudaAddress address) : cuda_(&cuda), address_(address) {}
  const CudaLibrary* cuda_;
  CudaAddress address_;
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

}  // namespace tranche::probe
