#pragma once
// The CUDA driver API's error numbers that a simulated node can return, their names, and sim-cuda's exit status for
// each. Pure.
#include <string_view>

namespace tranche::sim {

enum class CudaError : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kDeviceUnavailable = 46,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kInvalidPtx = 218,
  kInvalidHandle = 400,
  kNotFound = 500,
  kIllegalAddress = 700,
  kLaunchFailed = 719,
  kNotPermitted = 800,
  kNotSupported = 801,
  kMpsConnectionFailed = 805,
  kMpsRpcFailure = 806,
  kMpsServerNotReady = 807,
  kMpsMaxClients = 808,
  kMpsMaxConnections = 809,
  kMpsClientTerminated = 810,
  kUnknown = 999,
};

std::string_view error_name(int code);  // "CUDA_ERROR_OUT_OF_MEMORY"; "" for other numbers
int exit_status(CudaError error);       // 0, 12, 46, 20, 70, 71, 80, 85…90; 99 for the rest (README-mps.md)

}  // namespace tranche::sim
