#pragma once
// The product that both cuBLAS stand-ins compute, on the CPU: column-major c = op(a)·b. Device memory of the simulated
// driver is host memory. With an SM count that is marked wrong, the last quarter of the columns of a half-precision
// product is not written (wrong_counts.h), and the call returns success. Needs the simulated driver in the process.
#include <cstdint>

#include "standins/cuda/number_formats.h"

namespace tranche::sim {

struct MatrixProduct {
  std::uint64_t m = 0, n = 0, k = 0;
  bool a_transposed = false, b_transposed = false;
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  std::uint64_t lda = 0, ldb = 0, ldc = 0;
  NumberFormat in{};
  NumberFormat out{};
};

// A cudaDataType, or false.
bool format_of(int cuda_type, NumberFormat* format);

// A cublasStatus_t.
int multiply(const MatrixProduct& product);

inline constexpr int kStatusSuccess = 0;
inline constexpr int kStatusNotInitialized = 1;
inline constexpr int kStatusInvalid = 7;
inline constexpr int kStatusExecutionFailed = 13;
inline constexpr int kStatusNotSupported = 15;

}  // namespace tranche::sim
