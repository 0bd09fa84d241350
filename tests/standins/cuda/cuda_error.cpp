#include "standins/cuda/cuda_error.h"

#include <array>

namespace tranche::sim {
namespace {

struct Row {
  CudaError error;
  std::string_view name;
  int status;
};

constexpr std::array<Row, 23> kRows{{
    {CudaError::kSuccess, "CUDA_SUCCESS", 0},
    {CudaError::kInvalidValue, "CUDA_ERROR_INVALID_VALUE", 99},
    {CudaError::kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", 12},
    {CudaError::kNotInitialized, "CUDA_ERROR_NOT_INITIALIZED", 99},
    {CudaError::kDeviceUnavailable, "CUDA_ERROR_DEVICE_UNAVAILABLE", 46},
    {CudaError::kNoDevice, "CUDA_ERROR_NO_DEVICE", 20},
    {CudaError::kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE", 99},
    {CudaError::kInvalidImage, "CUDA_ERROR_INVALID_IMAGE", 99},
    {CudaError::kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT", 99},
    {CudaError::kInvalidPtx, "CUDA_ERROR_INVALID_PTX", 99},
    {CudaError::kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE", 99},
    {CudaError::kNotFound, "CUDA_ERROR_NOT_FOUND", 99},
    {CudaError::kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS", 70},
    {CudaError::kLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED", 71},
    {CudaError::kNotPermitted, "CUDA_ERROR_NOT_PERMITTED", 80},
    {CudaError::kNotSupported, "CUDA_ERROR_NOT_SUPPORTED", 99},
    {CudaError::kMpsConnectionFailed, "CUDA_ERROR_MPS_CONNECTION_FAILED", 85},
    {CudaError::kMpsRpcFailure, "CUDA_ERROR_MPS_RPC_FAILURE", 86},
    {CudaError::kMpsServerNotReady, "CUDA_ERROR_MPS_SERVER_NOT_READY", 87},
    {CudaError::kMpsMaxClients, "CUDA_ERROR_MPS_MAX_CLIENTS_REACHED", 88},
    {CudaError::kMpsMaxConnections, "CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED", 89},
    {CudaError::kMpsClientTerminated, "CUDA_ERROR_MPS_CLIENT_TERMINATED", 90},
    {CudaError::kUnknown, "CUDA_ERROR_UNKNOWN", 99},
}};

const Row* row_of(int code) {
  for (const auto& row : kRows) {
    if (static_cast<int>(row.error) == code) return &row;
  }
  return nullptr;
}

}  // namespace

std::string_view error_name(int code) {
  const Row* row = row_of(code);
  return row == nullptr ? std::string_view() : row->name;
}

int exit_status(CudaError error) {
  const Row* row = row_of(static_cast<int>(error));
  return row == nullptr ? 99 : row->status;
}

}  // namespace tranche::sim
