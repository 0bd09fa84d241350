#pragma once
// Our own declarations of the part of cuBLAS and cuBLASLt that the tool calls, after NVIDIA's cuBLAS library
// documentation (docs.nvidia.com/cuda/cublas, chapters 2.2, 2.8 and 3.4). Nothing is linked: cublas_library.h looks the
// symbols up at run time. Numbers and layout have been the same from cuBLAS 11 (fp8: 12) to 13.
#include <cstddef>
#include <cstdint>

namespace tranche::gemm_check {

using CublasHandle = struct CublasHandleStruct*;
using CublasLtHandle = struct CublasLtHandleStruct*;
using CublasLtMatmulDesc = struct CublasLtMatmulDescStruct*;
using CublasLtLayout = struct CublasLtLayoutStruct*;
using CublasLtPreference = struct CublasLtPreferenceStruct*;

inline constexpr int kCublasSuccess = 0;  // cublasStatus_t

// cudaDataType
inline constexpr int kCudaR32F = 0;
inline constexpr int kCudaR16F = 2;
inline constexpr int kCudaR16BF = 14;
inline constexpr int kCudaR8FE4M3 = 28;

// cublasOperation_t, cublasComputeType_t, cublasGemmAlgo_t
inline constexpr int kCublasPlain = 0;
inline constexpr int kCublasTransposed = 1;
inline constexpr int kCublasCompute32F = 68;
inline constexpr int kCublasCompute32FFastTf32 = 77;
inline constexpr int kCublasAlgoDefaultTensor = 99;

// cublasLtMatmulDescAttributes_t, cublasLtMatmulPreferenceAttributes_t
inline constexpr int kCublasLtDescTransA = 3;
inline constexpr int kCublasLtDescTransB = 4;
inline constexpr int kCublasLtPreferenceWorkspace = 1;

struct CublasLtAlgo {
  std::uint64_t data[8];
};
struct CublasLtHeuristic {
  CublasLtAlgo algo;
  std::size_t workspace_bytes;
  int state;
  float waves;
  int reserved[4];
};
static_assert(sizeof(CublasLtHeuristic) == 96);

struct CublasFunctions {
  int (*create)(CublasHandle*) = nullptr;
  int (*destroy)(CublasHandle) = nullptr;
  int (*version)(CublasHandle, int*) = nullptr;
  int (*gemm)(CublasHandle, int trans_a, int trans_b, int m, int n, int k, const void* alpha, const void* a, int a_type,
              int lda, const void* b, int b_type, int ldb, const void* beta, void* c, int c_type, int ldc, int compute,
              int algo) = nullptr;

  // Of cuBLASLt; all there or `lt_create` is nullptr.
  int (*lt_create)(CublasLtHandle*) = nullptr;
  int (*lt_destroy)(CublasLtHandle) = nullptr;
  int (*lt_desc_create)(CublasLtMatmulDesc*, int compute, int scale_type) = nullptr;
  int (*lt_desc_set)(CublasLtMatmulDesc, int attribute, const void*, std::size_t) = nullptr;
  int (*lt_desc_destroy)(CublasLtMatmulDesc) = nullptr;
  int (*lt_layout_create)(CublasLtLayout*, int type, std::uint64_t rows, std::uint64_t columns,
                          std::int64_t ld) = nullptr;
  int (*lt_layout_destroy)(CublasLtLayout) = nullptr;
  int (*lt_preference_create)(CublasLtPreference*) = nullptr;
  int (*lt_preference_set)(CublasLtPreference, int attribute, const void*, std::size_t) = nullptr;
  int (*lt_preference_destroy)(CublasLtPreference) = nullptr;
  int (*lt_heuristic)(CublasLtHandle, CublasLtMatmulDesc, CublasLtLayout a, CublasLtLayout b, CublasLtLayout c,
                      CublasLtLayout d, CublasLtPreference, int asked, CublasLtHeuristic*, int* found) = nullptr;
  int (*lt_matmul)(CublasLtHandle, CublasLtMatmulDesc, const void* alpha, const void* a, CublasLtLayout, const void* b,
                   CublasLtLayout, const void* beta, const void* c, CublasLtLayout, void* d, CublasLtLayout,
                   const CublasLtAlgo*, void* workspace, std::size_t workspace_bytes, void* stream) = nullptr;
};

}  // namespace tranche::gemm_check
