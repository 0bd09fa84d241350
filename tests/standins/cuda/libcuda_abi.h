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
using CudaEventHandle = struct SimEvent*;
using CudaAddress = std::uint64_t;

// libcuda_device.cpp
int cuInit(unsigned flags);
int cuDriverGetVersion(int* version);
int cuGetErrorName(int error, const char** name);
int cuGetErrorString(int error, const char** text);
int cuDeviceGetCount(int* count);
int cuDeviceGet(int* device, int ordinal);
int cuDeviceGetName(char* name, int length, int device);
int cuDeviceGetUuid(CudaUuidBytes* uuid, int device);
int cuDeviceGetUuid_v2(CudaUuidBytes* uuid, int device);
int cuDeviceGetPCIBusId(char* text, int length, int device);
int cuDeviceGetAttribute(int* value, int attribute, int device);
int cuDeviceTotalMem_v2(std::size_t* bytes, int device);
int cuCtxCreate_v2(CudaContextHandle* context, unsigned flags, int device);
int cuCtxDestroy_v2(CudaContextHandle context);
int cuCtxSetCurrent(CudaContextHandle context);
int cuCtxGetCurrent(CudaContextHandle* context);
int cuCtxPushCurrent_v2(CudaContextHandle context);
int cuCtxPopCurrent_v2(CudaContextHandle* context);
int cuCtxGetDevice(int* device);
int cuCtxSynchronize();
int cuDevicePrimaryCtxRetain(CudaContextHandle* context, int device);
int cuDevicePrimaryCtxRelease_v2(int device);
int cuGetProcAddress_v2(const char* symbol, void** function, int version, std::uint64_t flags, int* status);

// libcuda_memory.cpp
int cuMemGetInfo_v2(std::size_t* free_bytes, std::size_t* total_bytes);
int cuMemAlloc_v2(CudaAddress* address, std::size_t bytes);
int cuMemFree_v2(CudaAddress address);
int cuMemcpyHtoD_v2(CudaAddress to, const void* from, std::size_t bytes);
int cuMemcpyDtoH_v2(void* to, CudaAddress from, std::size_t bytes);
int cuMemcpyHtoDAsync_v2(CudaAddress to, const void* from, std::size_t bytes, CudaStreamHandle stream);
int cuMemcpyDtoHAsync_v2(void* to, CudaAddress from, std::size_t bytes, CudaStreamHandle stream);
int cuMemsetD8_v2(CudaAddress to, unsigned char value, std::size_t count);
int cuMemsetD32_v2(CudaAddress to, unsigned value, std::size_t count);

// libcuda_launch.cpp
int cuModuleLoadData(CudaModuleHandle* module, const void* image);
int cuModuleLoadDataEx(CudaModuleHandle* module, const void* image, unsigned count, int* options, void** values);
int cuModuleGetFunction(CudaFunctionHandle* function, CudaModuleHandle module, const char* name);
int cuModuleUnload(CudaModuleHandle module);
int cuLaunchKernel(CudaFunctionHandle function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                   unsigned block_y, unsigned block_z, unsigned shared_bytes, CudaStreamHandle stream,
                   void** parameters, void** extra);
int cuStreamCreate(CudaStreamHandle* stream, unsigned flags);
int cuStreamSynchronize(CudaStreamHandle stream);
int cuStreamQuery(CudaStreamHandle stream);
int cuStreamDestroy_v2(CudaStreamHandle stream);
int cuEventCreate(CudaEventHandle* event, unsigned flags);
int cuEventRecord(CudaEventHandle event, CudaStreamHandle stream);
int cuEventSynchronize(CudaEventHandle event);
int cuEventElapsedTime(float* milliseconds, CudaEventHandle start, CudaEventHandle end);
int cuEventDestroy_v2(CudaEventHandle event);
}
