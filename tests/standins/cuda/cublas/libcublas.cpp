// libcublas.so.13 of a simulated node: version, handles, and cublasGemmEx on the CPU.
#include "standins/cuda/cublas/matrix.h"

using namespace tranche::sim;

struct SimCublas {};

extern "C" {

int cublasCreate_v2(SimCublas** handle) {
  if (handle == nullptr) return kStatusInvalid;
  *handle = new SimCublas;
  return kStatusSuccess;
}

int cublasDestroy_v2(SimCublas* handle) {
  delete handle;
  return kStatusSuccess;
}

int cublasGetVersion_v2(SimCublas* /*handle*/, int* version) {
  *version = 130000;
  return kStatusSuccess;
}

const char* cublasGetStatusName(int status) {
  switch (status) {
    case kStatusSuccess:
      return "CUBLAS_STATUS_SUCCESS";
    case kStatusNotInitialized:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case kStatusExecutionFailed:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case kStatusNotSupported:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
      return "CUBLAS_STATUS_INVALID_VALUE";
  }
}

int cublasGemmEx(SimCublas* handle, int trans_a, int trans_b, int m, int n, int k, const void* alpha, const void* a,
                 int a_type, int lda, const void* b, int b_type, int ldb, const void* beta, void* c, int c_type,
                 int ldc, int /*compute*/, int /*algo*/) {
  if (handle == nullptr) return kStatusNotInitialized;
  if (m <= 0 || n <= 0 || k <= 0 || lda < (trans_a != 0 ? k : m) || ldb < (trans_b != 0 ? n : k) || ldc < m) {
    return kStatusInvalid;
  }
  MatrixProduct product{static_cast<std::uint64_t>(m),
                        static_cast<std::uint64_t>(n),
                        static_cast<std::uint64_t>(k),
                        trans_a != 0,
                        trans_b != 0,
                        a,
                        b,
                        c,
                        static_cast<std::uint64_t>(lda),
                        static_cast<std::uint64_t>(ldb),
                        static_cast<std::uint64_t>(ldc),
                        {},
                        {}};
  const bool plain = *static_cast<const float*>(alpha) == 1 && *static_cast<const float*>(beta) == 0;
  const bool known = format_of(a_type, &product.in) && format_of(c_type, &product.out) && a_type == b_type;
  if (!plain || !known || product.in == NumberFormat::kE4m3)
    return kStatusNotSupported;  // fp8 is supported by cuBLASLt only
  return multiply(product);
}
}
