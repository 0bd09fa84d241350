#include "gemm-check/multiplier.h"

namespace tranche::gemm_check {
namespace {

constexpr std::size_t kWorkspaceBytes = 32u << 20;  // what cuBLAS takes for itself on Hopper

void* pointer(CudaAddress address) {
  return reinterpret_cast<void*>(address);
}

struct CublasType {
  int in = 0;
  int out = 0;
  int compute = kCublasCompute32F;
};
CublasType cublas_type(GemmType type) {
  switch (type) {
    case GemmType::kBf16:
      return {kCudaR16BF, kCudaR16BF};
    case GemmType::kFp16:
      return {kCudaR16F, kCudaR16F};
    case GemmType::kFp8:
      return {kCudaR8FE4M3, kCudaR16BF};
    case GemmType::kTf32:
      return {kCudaR32F, kCudaR32F, kCublasCompute32FFastTf32};
    case GemmType::kFp32:
      break;
  }
  return {kCudaR32F, kCudaR32F};
}

// Descriptors of one cuBLASLt product; whatever was made goes with it.
struct LtObjects {
  explicit LtObjects(const CublasFunctions& functions) : f(functions) {}
  ~LtObjects() {
    if (preference != nullptr) f.lt_preference_destroy(preference);
    for (CublasLtLayout layout : {a, b, c})
      if (layout != nullptr) f.lt_layout_destroy(layout);
    if (desc != nullptr) f.lt_desc_destroy(desc);
  }
  LtObjects(const LtObjects&) = delete;
  LtObjects& operator=(const LtObjects&) = delete;

  const CublasFunctions& f;
  CublasLtMatmulDesc desc = nullptr;
  CublasLtLayout a = nullptr, b = nullptr, c = nullptr;
  CublasLtPreference preference = nullptr;
};

}  // namespace

TypeFormats formats_of(GemmType type) {
  switch (type) {
    case GemmType::kBf16:
      return {Format::kBf16, Format::kBf16, 0x1p-8};
    case GemmType::kFp16:
      return {Format::kF16, Format::kF16, 0x1p-11};
    case GemmType::kFp8:
      return {Format::kE4m3, Format::kBf16, 0x1p-8};
    case GemmType::kTf32:
    case GemmType::kFp32:
      break;
  }
  return {Format::kF32, Format::kF32, 0x1p-24};
}

Result<std::unique_ptr<Multiplier>> Multiplier::open(const CudaLibrary& cuda, const CublasLibrary& cublas) {
  std::unique_ptr<Multiplier> made(new Multiplier(cuda, cublas));
  TRY_STATUS(made->check(cublas.functions().create(&made->handle_), "cublasCreate"));
  cublas.functions().version(made->handle_, &made->version_);
  return made;
}

Multiplier::~Multiplier() {
  if (lt_ != nullptr) cublas_.functions().lt_destroy(lt_);
  if (handle_ != nullptr) cublas_.functions().destroy(handle_);
}

Status Multiplier::check(int status, const char* call) const {
  if (status == kCublasSuccess) return {};
  constexpr int kAllocationFailed = 3;
  return fail(status == kAllocationFailed ? Kind::kConflict : Kind::kUnsupported, cublas_.name_of(status), call);
}

Status Multiplier::multiply(const GemmShape& shape, GemmType type, bool transposed, CudaAddress a, CudaAddress b,
                            CudaAddress c) {
  if (type == GemmType::kFp8) return multiply_fp8(shape, a, b, c);
  const auto m = static_cast<int>(shape.m), n = static_cast<int>(shape.n), k = static_cast<int>(shape.k);
  const CublasType types = cublas_type(type);
  const float one = 1, zero = 0;
  return check(cublas_.functions().gemm(handle_, transposed ? kCublasTransposed : kCublasPlain, kCublasPlain, m, n, k,
                                        &one, pointer(a), types.in, transposed ? k : m, pointer(b), types.in, k, &zero,
                                        pointer(c), types.out, m, types.compute, kCublasAlgoDefaultTensor),
               "cublasGemmEx");
}

// fp8 is taken with a transposed only (cuBLAS documentation, 3.4.17), and by way of the heuristics that frameworks ask.
Status Multiplier::multiply_fp8(const GemmShape& shape, CudaAddress a, CudaAddress b, CudaAddress c) {
  const CublasFunctions& f = cublas_.functions();
  if (f.lt_create == nullptr) return fail(Kind::kUnsupported, "libcublasLt is not beside it", cublas_.path());
  if (lt_ == nullptr) TRY_STATUS(check(f.lt_create(&lt_), "cublasLtCreate"));
  if (!workspace_) {
    TRY(DeviceMemory memory, DeviceMemory::allocate(cuda_, kWorkspaceBytes));
    workspace_.emplace(std::move(memory));
  }
  const CublasType types = cublas_type(GemmType::kFp8);
  LtObjects lt(f);
  TRY_STATUS(check(f.lt_desc_create(&lt.desc, types.compute, kCudaR32F), "cublasLtMatmulDescCreate"));
  const std::int32_t transposed = kCublasTransposed, plain = kCublasPlain;
  TRY_STATUS(check(f.lt_desc_set(lt.desc, kCublasLtDescTransA, &transposed, sizeof transposed), "TRANSA"));
  TRY_STATUS(check(f.lt_desc_set(lt.desc, kCublasLtDescTransB, &plain, sizeof plain), "TRANSB"));
  TRY_STATUS(check(f.lt_layout_create(&lt.a, types.in, shape.k, shape.m, shape.k), "cublasLtMatrixLayoutCreate"));
  TRY_STATUS(check(f.lt_layout_create(&lt.b, types.in, shape.k, shape.n, shape.k), "cublasLtMatrixLayoutCreate"));
  TRY_STATUS(check(f.lt_layout_create(&lt.c, types.out, shape.m, shape.n, shape.m), "cublasLtMatrixLayoutCreate"));
  TRY_STATUS(check(f.lt_preference_create(&lt.preference), "cublasLtMatmulPreferenceCreate"));
  const std::uint64_t workspace = kWorkspaceBytes;
  TRY_STATUS(check(f.lt_preference_set(lt.preference, kCublasLtPreferenceWorkspace, &workspace, sizeof workspace),
                   "workspace"));
  CublasLtHeuristic best{};
  int found = 0;
  TRY_STATUS(check(f.lt_heuristic(lt_, lt.desc, lt.a, lt.b, lt.c, lt.c, lt.preference, 1, &best, &found),
                   "cublasLtMatmulAlgoGetHeuristic"));
  if (found == 0) return fail(Kind::kUnsupported, "cuBLASLt has no way to do it", "cublasLtMatmulAlgoGetHeuristic");
  const float one = 1, zero = 0;
  return check(f.lt_matmul(lt_, lt.desc, &one, pointer(a), lt.a, pointer(b), lt.b, &zero, pointer(c), lt.c, pointer(c),
                           lt.c, &best.algo, pointer(workspace_->address()), kWorkspaceBytes, nullptr),
               "cublasLtMatmul");
}

}  // namespace tranche::gemm_check
