#include "standins/cuda/cuda_error.h"

#include <array>

namespace tranche::sim {
namespace {

struct Row {
  CudaError error;
  std::string_view name;
  std::string_view text;
  int status;
};

constexpr std::array<Row, 23> kRows{{
    {CudaError::kSuccess, "CUDA_SUCCESS", "no error", 0},
    {CudaError::kInvalidValue, "CUDA_ERROR_INVALID_VALUE", "an argument is out of range", 99},
    {CudaError::kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "not enough memory within the limit", 12},
    {CudaError::kNotInitialized, "CUDA_ERROR_NOT_INITIALIZED", "cuInit has not been called", 99},
    {CudaError::kDeviceUnavailable, "CUDA_ERROR_DEVICE_UNAVAILABLE", "the device is busy or unavailable", 46},
    {CudaError::kNoDevice, "CUDA_ERROR_NO_DEVICE", "this process sees no GPU", 20},
    {CudaError::kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE", "there is no device of that number", 99},
    {CudaError::kInvalidImage, "CUDA_ERROR_INVALID_IMAGE", "the kernel image is invalid", 99},
    {CudaError::kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT", "no such context is current", 99},
    {CudaError::kInvalidPtx, "CUDA_ERROR_INVALID_PTX", "the PTX cannot be compiled", 99},
    {CudaError::kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE", "the handle is not valid", 99},
    {CudaError::kNotFound, "CUDA_ERROR_NOT_FOUND", "no kernel of that name", 99},
    {CudaError::kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal address was used on the GPU", 70},
    {CudaError::kLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED", "a kernel failed on the GPU", 71},
    {CudaError::kNotPermitted, "CUDA_ERROR_NOT_PERMITTED", "not permitted", 80},
    {CudaError::kNotSupported, "CUDA_ERROR_NOT_SUPPORTED", "not supported", 99},
    {CudaError::kMpsConnectionFailed, "CUDA_ERROR_MPS_CONNECTION_FAILED", "no MPS server could be reached", 85},
    {CudaError::kMpsRpcFailure, "CUDA_ERROR_MPS_RPC_FAILURE", "the MPS server went away", 86},
    {CudaError::kMpsServerNotReady, "CUDA_ERROR_MPS_SERVER_NOT_READY", "the MPS server takes no clients now", 87},
    {CudaError::kMpsMaxClients, "CUDA_ERROR_MPS_MAX_CLIENTS_REACHED", "the MPS server has its most clients", 88},
    {CudaError::kMpsMaxConnections, "CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED", "no hardware connection is left", 89},
    {CudaError::kMpsClientTerminated, "CUDA_ERROR_MPS_CLIENT_TERMINATED", "this client was terminated through MPS", 90},
    {CudaError::kUnknown, "CUDA_ERROR_UNKNOWN", "unknown error", 99},
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

std::string_view error_text(int code) {
  const Row* row = row_of(code);
  return row == nullptr ? std::string_view() : row->text;
}

int exit_status(CudaError error) {
  const Row* row = row_of(static_cast<int>(error));
  return row == nullptr ? 99 : row->status;
}

}  // namespace tranche::sim
