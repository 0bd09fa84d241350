#pragma once
// One product by cuBLAS on an existing context: half and single precision by cublasGemmEx, fp8 by cuBLASLt, both with
// accumulation in single precision, as frameworks call them. Column-major, as cuBLAS has it. One thread.
#include <memory>
#include <optional>

#include "gemm-check/cublas_library.h"
#include "gemm-check/cuda.h"
#include "gemm-check/gemm.h"
#include "gemm-check/gemm_kernels.h"

namespace tranche::gemm_check {

struct TypeFormats {
  Format in{};
  Format out{};
  double precision = 0;  // of the output: the largest relative error of rounding to it
};
TypeFormats formats_of(GemmType type);

class Multiplier {
 public:
  static Result<std::unique_ptr<Multiplier>> open(const CudaLibrary& cuda, const CublasLibrary& cublas);
  ~Multiplier();
  Multiplier(const Multiplier&) = delete;
  Multiplier& operator=(const Multiplier&) = delete;

  int version() const { return version_; }

  // c = a·b, started and not waited for. `transposed`: a is stored k×m. Not possible: kUnsupported, or kConflict when
  // memory is short, with cuBLAS's word.
  Status multiply(const GemmShape& shape, GemmType type, bool transposed, CudaAddress a, CudaAddress b, CudaAddress c);

 private:
  Multiplier(const CudaLibrary& cuda, const CublasLibrary& cublas) : cuda_(cuda), cublas_(cublas) {}
  Status multiply_fp8(const GemmShape& shape, CudaAddress a, CudaAddress b, CudaAddress c);
  Status check(int status, const char* call) const;

  const CudaLibrary& cuda_;
  const CublasLibrary& cublas_;
  CublasHandle handle_ = nullptr;
  CublasLtHandle lt_ = nullptr;
  std::optional<DeviceMemory> workspace_;  // of fp8
  int version_ = 0;
};

}  // namespace tranche::gemm_check
