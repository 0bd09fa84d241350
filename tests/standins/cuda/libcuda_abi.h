#pragma once
// The part of the CUDA driver API's C ABI that the libcuda.so.1 stand-in implements, declared independently. Every
// function returns a CUresult as an int. Kernels are identified by name and computed on the CPU (sim_kernels.h).
#include <cstddef>
#include <cstdint>

extern "C" {

struct CudaUuidBytes {
  unsigned char bytes[16];
};
using CudaContextHandle = struct SimContext*;
using CudaModuleHandle = struct SimModule*;
using CudaFunctionHandle = struct SimFunction*;
using CudaStreamHandle = struct SimStream*;
using CudaAddress = std::uint64_t;

// libcuda_device.cpp
int cuInit(unsigned flags);
int cuDriverGetVersion(int* version);
int cuGetErrorName(int error, const char** name);
int cuDeviceGetCount(int* count);
int cuDeviceGet(int* device, int ordinal);
int cuDeviceGetName(char* name, int length, int device);
int cuDeviceGetUuid_v2(CudaUuidBytes* uuid, int device);
int cuDeviceGetAttribute(int* value, int attribute, int device);
int cuDeviceTotalMem_v2(std::size_t* bytes, int device);
int cuCtxCreate_v2(CudaContextHandle* context, unsigned flags, int device);
int cuCtxDestroy_v2(CudaContextHandle context);
int cuCtxGetDevice(int* device);
int cuCtxSynchronize();

// libcuda_memory.cpp
int cuMemGetInfo_v2(std::size_t* free_bytes, std::size_t* total_bytes);
int cuMemAlloc_v2(CudaAddress* address, std::size_t bytes);
int cuMemFree_v2(CudaAddress address);
int cuMemcpyDtoH_v2(void* to, CudaAddress from, std::size_t bytes);
int cuMemsetD8_v2(CudaAddress to, unsigned char value, std::size_t count);

// libcuda_launch.cpp
int cuModuleLoadData(CudaModuleHandle* module, const void* image);
int cuModuleLoadDataEx(CudaModuleHandle* module, const void* image, unsigned count, int* options, void** values);
int cuModuleGetFunction(CudaFunctionHandle* function, CudaModuleHandle module, const char* name);
int cuLaunchKernel(CudaFunctionHandle function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                   unsigned block_y, unsigned block_z, unsigned shared_bytes, CudaStreamHandle stream,
                   void** parameters, void** extra);
}
